"""`ExportableModule`, a module that has the arguments of its own export."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnxexp_torch_onnx.exporting import export


class ExportableModule(torch.nn.Module, abc.ABC):
    """A module with an example, the names and the dynamic axes of its export.

    ``export(module)`` needs no further argument. An argument that is given is used in place of the method's result.
    """

    @abc.abstractmethod
    def example_arguments(self) -> tuple[Sequence[Any], Mapping[str, Any] | None]:
        """Return the positional and the keyword arguments of the example."""

    def dynamic_shapes(self) -> Any:
        """Return the dynamic axes, as `onnxexp.export` takes them.

        None means that every size is static.
        """
        return None

    def input_names(self) -> Sequence[str] | None:
        """Return the names of the inputs; None for those of the parameters of forward."""
        return None

    def output_names(self) -> Sequence[str] | None:
        """Return the names of the outputs; None for those of the export."""
        return None

    def to_onnx(self, **kwargs: Any) -> Any:
        """Export the module with further arguments of `onnxexp_torch_onnx.export`."""
        return export(self, **kwargs)
