"""Every documented name of torch.onnx, with its parameters in their order."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp_torch_onnx as onnx_exporter
from onnxexp_torch_onnx import deprecated_arguments

ROOT = Path(__file__).parents[2]
X = torch.randn(2, 3)
EXPORT = "model args f export_params verbose training input_names output_names operator_export_type opset_version"
EXPORT += (
    " do_constant_folding dynamic_axes keep_initializers_as_inputs custom_opsets export_modules_as_functions autograd_inlining"
)
PRETTY = "model args export_params verbose training input_names output_names operator_export_type export_type google_printer"
PRETTY += " opset_version keep_initializers_as_inputs custom_opsets add_node_names do_constant_folding dynamic_axes"
VERIFY = "model input_args input_kwargs do_constant_folding dynamic_axes input_names output_names training opset_version"
VERIFY += " keep_initializers_as_inputs verbose fixed_batch_size use_external_data additional_test_inputs options"
MISMATCH = "model input_args do_constant_folding training opset_version keep_initializers_as_inputs verbose options"
VERIFICATION = "flatten ignore_none check_shape check_dtype backend rtol atol remained_onnx_input_idx acceptable_error_percentage"

NAMES: list[tuple[str, str | None]] = [
    # name, documented parameters by position (None: not a call)
    ("export", EXPORT),
    ("export_to_pretty_string", PRETTY),
    ("register_custom_op_symbolic", "symbolic_name symbolic_fn opset_version"),
    ("unregister_custom_op_symbolic", "symbolic_name opset_version"),
    ("select_model_mode_for_export", "model mode"),
    ("set_training", "model mode"),
    ("is_in_onnx_export", ""),
    ("enable_log", ""),
    ("disable_log", ""),
    ("OperatorExportTypes", None),
    ("TrainingMode", None),
    ("TensorProtoDataType", None),
    ("JitScalarType", None),
    ("JitScalarType.from_dtype", "dtype"),
    ("JitScalarType.from_onnx_type", "onnx_type"),
    ("JitScalarType.from_value", "value default"),
    ("JitScalarType.dtype", "self"),
    ("JitScalarType.onnx_compatible", "self"),
    ("JitScalarType.onnx_type", "self"),
    ("JitScalarType.scalar_name", "self"),
    ("JitScalarType.torch_name", "self"),
    ("symbolic_helper.parse_args", "arg_descriptors"),
    ("symbolic_helper.quantized_args", "arg_q_descriptors scale zero_point quantize_output"),
    ("symbolic_helper._scalar", "x"),
    ("symbolic_helper._if_scalar_type_as", "self tensor"),
    ("symbolic_helper._unimplemented", "op msg value"),
    ("utils.unconvertible_ops", "model args training opset_version"),
    ("utils.export", EXPORT),
    ("operators.shape_as_tensor", "x"),
    ("operators.reshape_from_tensor_shape", "x shape"),
    ("verification.find_mismatch", MISMATCH),
    ("verification.verify", VERIFY),
    ("verification.VerificationOptions", VERIFICATION),
    ("verification.GraphInfo", "graph"),
    ("verification.GraphInfo.all_mismatch_leaf_graph_info", "self"),
    ("verification.GraphInfo.clear", "self"),
    ("verification.GraphInfo.essential_node_count", "self"),
    ("verification.GraphInfo.essential_node_kinds", "self"),
    ("verification.GraphInfo.export_repro", "self repro_dir name"),
    ("verification.GraphInfo.find_mismatch", "self options"),
    ("verification.GraphInfo.find_partition", "self id"),
    ("verification.GraphInfo.has_mismatch", "self"),
    ("verification.GraphInfo.pretty_print_mismatch", "self graph"),
    ("verification.GraphInfo.pretty_print_tree", "self"),
    ("dynamo_export", "model model_args export_options model_kwargs"),
    ("enable_fake_mode", ""),
    ("ExportOptions", "dynamic_shapes op_level_debug fake_context onnx_registry diagnostic_options"),
    ("DiagnosticOptions", "verbosity_level warnings_as_errors"),
    ("ExportOutput", None),
    ("ExportOutput.save", "self destination model_state_dict serializer"),
    ("ExportOutput.adapt_torch_inputs_to_onnx", "self model_args model_kwargs"),
    ("ExportOutput.adapt_torch_outputs_to_onnx", "self model_outputs"),
    ("ExportOutput.model_proto", None),
    ("ExportOutputSerializer.serialize", "self export_output destination"),
    ("OnnxRegistry", "opset_version"),
    ("OnnxRegistry.register_op", "self function namespace op_name overload is_complex"),
    ("OnnxRegistry.is_registered_op", "self namespace op_name overload"),
    ("OnnxRegistry.get_op_functions", "self namespace op_name overload"),
    ("OnnxRegistry.opset_version", None),
    ("OnnxExporterError", None),
    ("CheckerError", None),
    ("UnsupportedOperatorError", None),
    ("SymbolicValueError", None),
    ("SymbolicContext", "params_dict env cur_node onnx_block"),
    ("GraphContext.op", "self opname raw_args outputs kwargs"),
    ("GraphContext.at", "self operator args overload_name kwargs"),
    ("GraphContext.aten_op", "self operator args overload_name kwargs"),
    ("GraphContext.onnxscript_op", "self onnx_fn raw_args outputs kwargs"),
]  # fmt: skip
ATTRIBUTES_OF_G = ("graph", "block", "opset", "original_node", "params_dict", "env", "new_nodes")
METHODS_OF_VALUES = ("type", "node", "debugName", "isCompleteTensor", "requiresGrad", "toIValue", "uses")
SETTERS_OF_VALUES = ("setType", "setTypeAs")
EXPORT_OF_1_4 = "model args f export_params verbose training input_names output_names aten export_raw_ir operator_export_type"
EXPORT_OF_1_4 += " opset_version _retain_param_name do_constant_folding example_outputs strip_doc_string dynamic_axes"
EXPORT_OF_1_4 += " keep_initializers_as_inputs"
SINCE_GONE = "enable_onnx_checker use_external_data_format add_node_names onnx_shape_inference"


def found(name: str) -> Any:
    thing: Any = onnx_exporter
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize(("name", "parameters"), [pytest.param(*each, id=each[0]) for each in NAMES])
def test_a_documented_name(name: str, parameters: str | None) -> None:
    thing = found(name)
    if parameters is not None:
        wanted = parameters.split()
        has = list(inspect.signature(thing).parameters)
        assert has[: len(wanted)] == wanted


@pytest.mark.parametrize("name", f"{EXPORT_OF_1_4} {SINCE_GONE}".split())
def test_a_documented_argument_of_export(name: str) -> None:
    if name in inspect.signature(onnx_exporter.export).parameters:
        assert name not in deprecated_arguments.FIXES
        return
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated: {re.escape(deprecated_arguments.FIXES[name])}"):
        onnx_exporter.export(torch.nn.GELU(), X, **{name: False})


def test_what_g_and_values_have() -> None:
    read: dict[str, Any] = {}

    def gelu(g: onnx_exporter.GraphContext, x: torch._C.Value, approximate: torch._C.Value) -> torch._C.Value:
        read.update({name: getattr(g, name) for name in ATTRIBUTES_OF_G})
        read["kind"] = g.original_node.kind()
        result: torch._C.Value = g.op("Relu", x)
        read.update({name: getattr(result, name)() for name in METHODS_OF_VALUES})
        read.update({name: getattr(result, name)(x if name == "setTypeAs" else x.type()) for name in SETTERS_OF_VALUES})
        return result

    onnx_exporter.register_custom_op_symbolic("aten::gelu", gelu, 9)
    program = onnx_exporter.export(torch.nn.GELU(), X, opset_version=17)
    assert [node.op_type for node in program.model.graph] == ["Relu"]
    assert read["opset"] == 17 and read["kind"] == "aten::gelu"
    assert {*ATTRIBUTES_OF_G, *METHODS_OF_VALUES, *SETTERS_OF_VALUES} < set(read)


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "api" / "torch-onnx.md").read_text("utf-8")
    elsewhere = {"ONNXProgram", "TrainingMode", "OnnxExporterError", "UnsupportedOperatorError", "errors", "operators", "utils"}
    missing = [name for name in onnx_exporter.__all__ if not re.search(rf"\b{name}\b", page) and name not in elsewhere]
    assert not missing
