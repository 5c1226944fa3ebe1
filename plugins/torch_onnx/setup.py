"""Add a `.pth` file to the wheel.

It starts onnxexp with Python where ONNXEXP_REPLACE_TORCH_ONNX is set.
"""

from __future__ import annotations

from setuptools import setup
from setuptools.command.build_py import build_py


class WithStart(build_py):
    """Build the modules, and put the ``.pth`` file beside them."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            self.copy_file("onnxexp-torch-onnx.pth", self.build_lib)


setup(cmdclass={"build_py": WithStart})
