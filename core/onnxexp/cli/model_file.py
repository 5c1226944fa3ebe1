"""Load an ONNX file for a command."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from onnxexp.errors import OptionError

__all__ = ["load_model"]


def load_model(path: Path) -> ir.Model:
    """Load a model.

    Raises OptionError where the file is missing or is not an ONNX model.
    """
    if not path.is_file():
        raise OptionError(f"there is no file {path}")
    try:
        return ir.load(path)
    except Exception as error:  # the errors of protobuf and of external data have no common class
        raise OptionError(f"{path} is not an ONNX model: {type(error).__name__}: {error}") from error
