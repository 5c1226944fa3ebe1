"""The arguments that torch.onnx.export once had: what they meant, with a warning."""

from __future__ import annotations

from typing import Any

from onnxexp.errors import OptionError
from onnxexp.suggest import nearest
from onnxexp.torch_onnx.enums import OperatorExportTypes
from onnxexp.user_warnings import warn

__all__ = ["CURES", "read"]

CURES = {
    "aten": "operator_export_type=OperatorExportTypes.ONNX_ATEN says the same",
    "export_raw_ir": "operator_export_type=OperatorExportTypes.RAW says the same",
    "example_outputs": "the outputs are computed from the example inputs",
    "strip_doc_string": "verbose says whether source lines are kept; print(program) shows them",
    "_retain_param_name": "parameters keep their names",
    "enable_onnx_checker": "onnx.checker.check_model checks a model",
    "use_external_data_format": "external_data says the same",
    "add_node_names": "nodes have names",
    "onnx_shape_inference": "types are always inferred",
}
"""Each argument, and what stands for it now."""
_ABOUT_TORCH = {
    "dynamo": "onnxexp captures through torch.export whatever it says",
    "fallback": "onnxexp chooses the capture itself",
    "report": "print(program) and `onnxexp.check` report",
    "optimize": "the graph is clean as it is built",
    "profile": "program.timings has the seconds of each stage",
    "dump_exported_program": "give onnxexp an ExportedProgram of your own",
    "artifacts_dir": "nothing is written beside the model",
}
"""Arguments of torch's newer exporter that choose among things that onnxexp has not."""


def read(given: dict[str, Any]) -> dict[str, Any]:
    """What was given, each with a warning. Raises OptionError for an argument that torch.onnx never had."""
    for name, value in given.items():
        cure = CURES.get(name) or _ABOUT_TORCH.get(name)
        if cure is None:
            known = [*CURES, *_ABOUT_TORCH]
            raise OptionError(f"export has no argument {name!r}{nearest(name, known)}")
        if value is not None:
            warn(f"{name} is deprecated: {cure}", DeprecationWarning)
    return given


def export_type(asked: Any, aten: Any, raw: Any) -> OperatorExportTypes:
    """Which operators stay torch's. Raises OptionError where two arguments contradict each other."""
    if aten and raw:
        raise OptionError("aten and export_raw_ir contradict each other: give one of the two")
    old = OperatorExportTypes.ONNX_ATEN if aten else OperatorExportTypes.RAW if raw else None
    if old is not None and asked is not None:
        raise OptionError("operator_export_type is given, and so is the argument that it replaced: give one of the two")
    if old is not None:
        return old
    return OperatorExportTypes.ONNX if asked is None else OperatorExportTypes[asked if isinstance(asked, str) else asked.name]
