"""Arguments that torch.onnx.export once had, and the warnings about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from onnxexp import OptionError, warn
from onnxexp.commands import nearest
from onnxexp_torch_onnx.enums import OperatorExportTypes
from onnxexp_torch_onnx.newer_arguments import NewerArguments

__all__ = ["FIXES", "read"]

FIXES = {
    "aten": "use operator_export_type=OperatorExportTypes.ONNX_ATEN",
    "export_raw_ir": "use operator_export_type=OperatorExportTypes.RAW",
    "example_outputs": "the outputs are computed from the example inputs",
    "strip_doc_string": "verbose keeps source lines; print(program) shows them",
    "_retain_param_name": "parameters keep their names",
    "enable_onnx_checker": "onnx.checker.check_model checks a model",
    "use_external_data_format": "use external_data",
    "add_node_names": "nodes have names",
    "onnx_shape_inference": "types are always inferred",
    "export_type": "a file has the weights, and external_data puts them beside it",
    "fixed_batch_size": "an axis is static unless dynamic_axes names it",
}
"""Each argument, and its replacement."""


def read(given: dict[str, Any], others: Iterable[str]) -> dict[str, Any]:
    """Warn about each former argument that is given, and return all of them.

    Raises OptionError for a name that torch.onnx never had. The message contains the nearest of the former names and of the
    `others`, the names that `export` has.
    """
    for name, value in given.items():
        fix = FIXES.get(name)
        if fix is None:
            known = [*others, *FIXES, *(field.name for field in dataclasses.fields(NewerArguments))]
            raise OptionError(f"export has no argument {name!r}{nearest(name, known)}")
        if value is not None:
            warn(f"{name} is deprecated: {fix}", DeprecationWarning)
    return given


def export_type(asked: Any, aten: Any, raw: Any) -> OperatorExportTypes:
    """Determine the export type from the new argument or the old ones.

    Raises OptionError if they contradict each other, and for an unknown type.
    """
    if aten and raw:
        raise OptionError("aten and export_raw_ir contradict each other: give one of the two")
    old = OperatorExportTypes.ONNX_ATEN if aten else OperatorExportTypes.RAW if raw else None
    if old is not None and asked is not None:
        raise OptionError("operator_export_type is given, and so is the argument that it replaced: give one of the two")
    if old is not None:
        return old
    if isinstance(asked, bool):
        former = "give aten, export_raw_ir and what follows by keyword: the order of torch.onnx's arguments has changed"
        raise OptionError(f"operator_export_type is {asked!r}; {former}")
    return OperatorExportTypes.ONNX if asked is None else OperatorExportTypes.read(asked, "operator_export_type")
