"""Every name of torch.onnx's documentation: it is here, has the documented parameters in their order, and a test uses it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp_torch_onnx as onnx_exporter
from onnxexp_torch_onnx import deprecated

ROOT = Path(__file__).parents[2]
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

NAMES: list[tuple[str, str | None, str]] = [
    # name, documented parameters by position (None: not a call), the test file that uses it as the documentation does
    ("export", EXPORT, "test_documentation"),
    ("export_to_pretty_string", PRETTY, "test_export"),
    ("register_custom_op_symbolic", "symbolic_name symbolic_fn opset_version", "test_documentation"),
    ("unregister_custom_op_symbolic", "symbolic_name opset_version", "test_registry"),
    ("select_model_mode_for_export", "model mode", "test_export"),
    ("set_training", "model mode", "test_export"),
    ("is_in_onnx_export", "", "test_export"),
    ("enable_log", "", "test_export"),
    ("disable_log", "", "test_export"),
    ("OperatorExportTypes", None, "test_export"),
    ("TrainingMode", None, "test_export"),
    ("TensorProtoDataType", None, "test_g"),
    ("JitScalarType", None, "test_symbolic_helper"),
    ("JitScalarType.from_dtype", "dtype", "test_symbolic_helper"),
    ("JitScalarType.from_onnx_type", "onnx_type", "test_symbolic_helper"),
    ("JitScalarType.from_value", "value default", "test_symbolic_helper"),
    ("JitScalarType.dtype", "self", "test_symbolic_helper"),
    ("JitScalarType.onnx_compatible", "self", "test_symbolic_helper"),
    ("JitScalarType.onnx_type", "self", "test_symbolic_helper"),
    ("JitScalarType.scalar_name", "self", "test_symbolic_helper"),
    ("JitScalarType.torch_name", "self", "test_symbolic_helper"),
    ("symbolic_helper.parse_args", "arg_descriptors", "test_documentation"),
    ("symbolic_helper.quantized_args", "arg_q_descriptors scale zero_point quantize_output", "test_symbolic_helper"),
    ("symbolic_helper._scalar", "x", "test_documentation"),
    ("symbolic_helper._if_scalar_type_as", "self tensor", "test_symbolic_helper"),
    ("symbolic_helper._unimplemented", "op msg value", "test_documentation"),
    ("utils.unconvertible_ops", "model args training opset_version", "test_documentation"),
    ("utils.export", EXPORT, "test_export"),
    ("operators.shape_as_tensor", "x", "test_export"),
    ("operators.reshape_from_tensor_shape", "x shape", "test_export"),
    ("verification.find_mismatch", MISMATCH, "test_verification"),
    ("verification.verify", VERIFY, "test_verification"),
    ("verification.VerificationOptions", VERIFICATION, "test_verification"),
    ("verification.GraphInfo", "graph", "test_verification"),
    ("verification.GraphInfo.all_mismatch_leaf_graph_info", "self", "test_verification"),
    ("verification.GraphInfo.clear", "self", "test_verification"),
    ("verification.GraphInfo.essential_node_count", "self", "test_verification"),
    ("verification.GraphInfo.essential_node_kinds", "self", "test_verification"),
    ("verification.GraphInfo.export_repro", "self repro_dir name", "test_verification"),
    ("verification.GraphInfo.find_mismatch", "self options", "test_verification"),
    ("verification.GraphInfo.find_partition", "self id", "test_verification"),
    ("verification.GraphInfo.has_mismatch", "self", "test_verification"),
    ("verification.GraphInfo.pretty_print_mismatch", "self graph", "test_verification"),
    ("verification.GraphInfo.pretty_print_tree", "self", "test_verification"),
    ("dynamo_export", "model model_args export_options model_kwargs", "test_verification"),
    ("enable_fake_mode", "", "test_verification"),
    ("ExportOptions", "dynamic_shapes op_level_debug fake_context onnx_registry diagnostic_options", "test_verification"),
    ("DiagnosticOptions", "verbosity_level warnings_as_errors", "test_verification"),
    ("ExportOutput", None, "test_verification"),
    ("ExportOutput.save", "self destination model_state_dict serializer", "test_verification"),
    ("ExportOutput.adapt_torch_inputs_to_onnx", "self model_args model_kwargs", "test_verification"),
    ("ExportOutput.adapt_torch_outputs_to_onnx", "self model_outputs", "test_verification"),
    ("ExportOutput.model_proto", None, "test_verification"),
    ("ExportOutputSerializer.serialize", "self export_output destination", "test_verification"),
    ("OnnxRegistry", "opset_version", "test_verification"),
    ("OnnxRegistry.register_op", "self function namespace op_name overload is_complex", "test_verification"),
    ("OnnxRegistry.is_registered_op", "self namespace op_name overload", "test_verification"),
    ("OnnxRegistry.get_op_functions", "self namespace op_name overload", "test_verification"),
    ("OnnxRegistry.opset_version", None, "test_verification"),
    ("OnnxExporterError", None, "test_documentation"),
    ("CheckerError", None, "test_export"),
    ("UnsupportedOperatorError", None, "test_export"),
    ("SymbolicValueError", None, "test_symbolic_helper"),
    ("SymbolicContext", "params_dict env cur_node onnx_block", "test_documentation"),
    ("GraphContext.op", "self opname raw_args outputs kwargs", "test_g"),
    ("GraphContext.at", "self operator args overload_name kwargs", "test_g"),
    ("GraphContext.aten_op", "self operator args overload_name kwargs", "test_g"),
    ("GraphContext.onnxscript_op", "self onnx_fn raw_args outputs kwargs", "test_documentation"),
]  # fmt: skip
ATTRIBUTES_OF_G = ("graph", "block", "opset", "original_node", "params_dict", "env", "new_nodes")
METHODS_OF_VALUES = {
    # what symbolics do with values, and the test that does
    "type": "test_g", "setType": "test_g", "setTypeAs": "test_g", "node": "test_g", "debugName": "test_g",
    "isCompleteTensor": "test_g", "requiresGrad": "test_documentation", "toIValue": "test_g", "uses": "test_g",
}  # fmt: skip
EXPORT_OF_1_4 = "model args f export_params verbose training input_names output_names aten export_raw_ir operator_export_type"
EXPORT_OF_1_4 += " opset_version _retain_param_name do_constant_folding example_outputs strip_doc_string dynamic_axes"
EXPORT_OF_1_4 += " keep_initializers_as_inputs"
SINCE_GONE = "enable_onnx_checker use_external_data_format add_node_names onnx_shape_inference"


def found(name: str) -> Any:
    thing: Any = onnx_exporter
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def uses(test: str, name: str) -> bool:
    text = (Path(__file__).parent / f"{test}.py").read_text("utf-8")
    return re.search(rf"(?<![\w]){re.escape(name.rpartition('.')[2])}\b", text) is not None


@pytest.mark.parametrize(("name", "parameters", "test"), [pytest.param(*each, id=each[0]) for each in NAMES])
def test_a_documented_name(name: str, parameters: str | None, test: str) -> None:
    thing = found(name)
    if parameters is not None:
        wanted = parameters.split()
        has = list(inspect.signature(thing).parameters)
        assert has[: len(wanted)] == wanted
    assert uses(test, name), f"no test in {test} uses {name}"


@pytest.mark.parametrize("name", f"{EXPORT_OF_1_4} {SINCE_GONE}".split())
def test_a_documented_argument_of_export(name: str) -> None:
    assert name in inspect.signature(onnx_exporter.export).parameters or name in deprecated.CURES
    assert uses("test_export", name) or uses("test_documentation", name)


def test_what_g_and_values_have() -> None:
    fields = onnx_exporter.GraphContext.__dataclass_fields__
    assert set(ATTRIBUTES_OF_G) <= set(fields) and all(uses("test_g", name) for name in ATTRIBUTES_OF_G)
    for name, test in METHODS_OF_VALUES.items():
        assert hasattr(torch._C.Value, name) and uses(test, name), name


def test_the_reference_has_every_public_name() -> None:
    page = (ROOT / "docs" / "reference" / "api" / "torch-onnx.md").read_text("utf-8")
    elsewhere = {"ONNXProgram", "TrainingMode", "OnnxExporterError", "UnsupportedOperatorError", "errors", "operators", "utils"}
    missing = [name for name in onnx_exporter.__all__ if not re.search(rf"\b{name}\b", page) and name not in elsewhere]
    assert not missing
