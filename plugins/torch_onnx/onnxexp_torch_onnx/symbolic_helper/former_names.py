"""Names that ``torch.onnx.symbolic_helper`` had up to torch 1.12.

Most of these names concern the target opset.
"""

from __future__ import annotations

from typing import Any

from onnxexp import DEFAULT_OPSET, MAX_OPSET, MIN_OPSET, OptionError
from onnxexp_torch_onnx.settings import current
from onnxexp_torch_onnx.symbolic_helper.reading import _block_list_in_opset

__all__ = [
    "_black_list_in_opset",
    "_cast_func_template",
    "_constant_folding_opset_versions",
    "_default_onnx_opset_version",
    "_onnx_main_opset",
    "_onnx_master_opset",
    "_onnx_stable_opsets",
    "_set_operator_export_type",
    "_set_opset_version",
    "_sum",
]

_default_onnx_opset_version = DEFAULT_OPSET
_onnx_master_opset = _onnx_main_opset = MAX_OPSET
_onnx_stable_opsets = [*range(MIN_OPSET, MAX_OPSET)]
_constant_folding_opset_versions = [*_onnx_stable_opsets, MAX_OPSET]
_black_list_in_opset = _block_list_in_opset
_sum = sum


def of_running_export(name: str) -> Any:
    """Look up a name whose value depends on the running export.

    Raises AttributeError for any other name.
    """
    if name == "_export_onnx_opset_version":
        return current().opset
    if name == "_operator_export_type":
        return current().operator_export_type
    raise AttributeError(f"symbolic_helper has no {name!r}")


def _set_opset_version(opset_version: int) -> None:
    """Check that an opset is that of the running export, which cannot be changed.

    Raises OptionError if the opset differs.
    """
    if opset_version != current().opset:
        raise OptionError(f"the opset cannot be set during an export; pass opset_version={opset_version} to export")


def _set_operator_export_type(operator_export_type: Any) -> None:
    """Check that a type is that of the running export, which cannot be changed.

    Raises OptionError if the type differs.
    """
    name = operator_export_type if isinstance(operator_export_type, str) else operator_export_type.name
    if name != current().operator_export_type:
        raise OptionError(f"operator_export_type cannot be set during an export; pass operator_export_type={name!r} to export")


def _cast_func_template(to_i: int, g: Any, input: Any, non_blocking: Any = None) -> Any:
    """Emit a Cast to an ONNX element type."""
    return g.op("Cast", input, to_i=to_i)
