"""The plugin's hooks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import onnx_ir as ir
import torch

from onnxexp import Builder, ExportContext, OptionError, Options, SymbolicTable, hookimpl
from onnxexp.commands import nearest
from onnxexp.graph import Graph, Node
from onnxexp_quantized.capture import fake_quantize_modules
from onnxexp_quantized.capture.fake_quantize_modules import constant_fake_quantization
from onnxexp_quantized.capture.functions import FUNCTIONS
from onnxexp_quantized.capture.integer_form import IntegerForm, WriteParameters, hooked, integer_outputs, quantized_inputs
from onnxexp_quantized.capture.model_patches import (
    QUANTIZING,
    calls_quantizing,
    functions_in_capture,
    is_quantized,
    quantizing_functions,
    stand_ins,
)
from onnxexp_quantized.capture.quantized_tensor import implemented_by
from onnxexp_quantized.capture.refusals import check_model
from onnxexp_quantized.capture.replaced_functions import redirect_functions, replace_functions
from onnxexp_quantized.lowering import (
    choose_parameters,
    dynamic_quantization,
    fake_quantization,
    integer_products,
    quantize_and_dequantize,
    recurrent,
    stored_weights,
    torchao_affine,
)
from onnxexp_quantized.lowering.affine import NARROW
from onnxexp_quantized.lowering.dynamic_quantization import DYNAMIC
from onnxexp_quantized.lowering.integer_products import join_zero_points
from onnxexp_quantized.lowering.stored_weights import keep_stored
from onnxexp_quantized.passes.averages import Averages
from onnxexp_quantized.passes.check_weights import CheckWeights, FindWeights
from onnxexp_quantized.passes.graph_editor import GraphEditor, QuantizedPass, producer, sole_user
from onnxexp_quantized.passes.int32_bias import Int32Bias
from onnxexp_quantized.passes.integer_layout import DequantizeAfterLayout, QuantizeBeforeLayout
from onnxexp_quantized.passes.own_biases import OwnBiases
from onnxexp_quantized.passes.unsigned_activations import UnsignedActivations
from onnxexp_quantized.styles.operator_style import STYLES, OperatorStyle
from onnxexp_quantized.torchscript.program import as_program, programs_in
from onnxexp_quantized.weights.dequantize_by_arithmetic import FloatWeights
from onnxexp_quantized.weights.fold_scales import LIBRARY_WEIGHTS, FoldScales, library_weights
from onnxexp_quantized.weights.layout import ArrangeWeights
from onnxexp_quantized.weights.narrow import NarrowWeights

_decomposed = SymbolicTable("quantized_decomposed")
_decomposed.include(quantize_and_dequantize.table, choose_parameters.table)

_of_captures = SymbolicTable("onnxexp_quantized")
_of_captures.include(dynamic_quantization.table, recurrent.table)

_aten = SymbolicTable("aten")
_aten.include(fake_quantization.table, integer_products.table)

TABLES = (_decomposed, _of_captures, torchao_affine.table, _aten, stored_weights.table)
"""The symbolics of decomposed graphs, of this plugin's own operators, of torchao's, of ATen's, and of torch.export's."""


_PATCHES = "quantized.patches"
"""Key in `ExportContext.plugin_data`: the stack of the capture's patches."""
_OUTPUTS = "quantized.outputs"
"""Key in `ExportContext.plugin_data`: the parameters of the quantized outputs."""


class Quantized:
    """The plugin: captures and lowers quantized models.

    Attributes:
        dynamic: How an input is quantized at run time. "exact" computes scale, zero point and rounding as torch's kernels do,
            also their reduction to 7 bits. "ort" uses DynamicQuantizeLinear, always with 8 bits: ONNX Runtime has one kernel for
            it and the product, and the results are nearer to the float model's. An LSTM becomes ONNX Runtime's
            DynamicQuantizeLSTM: 0.03 of the float model's time (256 to 512 features, 50 steps, one sequence), where "exact"
            dequantizes the weights of a float LSTM.
        style: How quantized computations are written. "qdq": between DequantizeLinear and QuantizeLinear, for the runtime to
            fuse. "qoperator": as ONNX's QLinearConv, QLinearMatMul and MatMulInteger. "ort": as the operators of ONNX Runtime's
            domain com.microsoft too, QGemm, QLinearAdd and others. What has no such operator stays as in "qdq".
        narrow: What becomes of weights of 4 and 2 bits below the opsets that have them, 21 and 25. "widen" stores the same
            integers with 8 bits, "error" refuses them.
        int8_products: Which products of a float tensor and an integer weight ONNX Runtime computes with integers: it rounds the
            float tensor to 8 bits, and the result may differ by 2 percent of the largest. "quantized": those with weights that
            torchao or PT2E quantized. "all": also products that a model writes out, `x @ (integers.to(x.dtype) * scale)`. They
            take 0.3 of the float layer's time, see `weights/fold_scales.py`. "none": ONNX Runtime stores each weight as floats
            when it loads the file, and its results are torch's.
    """

    symbolics = TABLES

    def __init__(
        self, *, dynamic: str = "exact", style: str = "qdq", narrow: str = "widen", int8_products: str = "quantized"
    ) -> None:
        self.dynamic = _one_of("dynamic", dynamic, ("exact", "ort"))
        self.style = _one_of("style", style, STYLES)
        self.narrow = _one_of("narrow", narrow, ("widen", "error"))
        self.int8_products = _one_of("int8_products", int8_products, ("quantized", "all", "none"))

    @hookimpl
    def capture_context(self, context: ExportContext) -> AbstractContextManager[Any]:
        """Undo at the end of the capture what `capture` replaces."""
        context.plugin_data[_PATCHES] = stack = contextlib.ExitStack()
        context.plugin_data.setdefault(DYNAMIC, self.dynamic)  # a plugin that the user passes comes first
        context.plugin_data.setdefault(NARROW, self.narrow)
        context.dense_forms.append(IntegerForm.of)
        return stack

    @hookimpl(tryfirst=True)
    def capture(self, model: Any, args: Any, kwargs: Any, options: Options, context: ExportContext) -> torch.nn.Module | None:
        """Put stand-ins into a quantized model, which another frontend captures.

        For a quantized model in TorchScript, it returns a module that runs the graph; else None.
        """
        stack: contextlib.ExitStack = context.plugin_data[_PATCHES]
        context.plugin_data.setdefault(LIBRARY_WEIGHTS, library_weights(model))
        forms = {index: form for index, form in context.input_forms.items() if isinstance(form, IntegerForm)}
        if isinstance(model, torch.nn.Module):
            stack.enter_context(programs_in(model))
        scripted = as_program(model, quantized=bool(forms))
        model = scripted or model
        quantized = is_quantized(model) or bool(forms) or scripted is not None
        check_model(model, options.capture, quantized)
        # another plugin's symbolic for torch.quantize_per_tensor lowers the call as it is
        lowered_elsewhere = not options.claims.isdisjoint(f"aten::{name}" for name in QUANTIZING)
        plain = isinstance(model, torch.nn.Module) and not quantized and not lowered_elsewhere
        calls = plain and calls_quantizing(model)
        scripts = options.capture == "script"  # torch.jit.script gets the functions from the beginning
        if plain and (calls or scripts):
            stack.enter_context(quantizing_functions(FUNCTIONS))
        elif plain:
            stack.enter_context(implemented_by(FUNCTIONS))
            redirect_functions(context, functions_in_capture())
        if quantized:
            stack.enter_context(stand_ins(model, FUNCTIONS))
        if quantized or calls:
            before = quantized_inputs(model, args, kwargs, forms)
            stack.enter_context(hooked(model, before, integer_outputs(context.plugin_data.setdefault(_OUTPUTS, {}))))
        if isinstance(model, torch.nn.Module):
            stack.enter_context(constant_fake_quantization(model))
            if scripts:
                stack.enter_context(replace_functions(fake_quantize_modules.FUNCTIONS))
            else:
                redirect_functions(context, fake_quantize_modules.FUNCTIONS)
        return scripted

    @hookimpl
    def pre_pass(self, context: ExportContext) -> list[Callable[[Graph], bool]]:
        """Give torchao's integer products a zero point, and find the quantized weights."""
        return [join_zero_points, FindWeights(context.plugin_data)]

    @hookimpl(tryfirst=True, namespaces=["aten", "prims"])
    def lower_node(self, op: Builder, node: Node) -> Any:
        """Keep quantized weights as they are stored."""
        return keep_stored(op, node)

    @hookimpl
    def post_pass(self, options: Options, context: ExportContext) -> list[ir.passes.InPlacePass]:
        """Arrange the graph for ONNX Runtime's integer kernels."""
        written = WriteParameters(context.input_forms, context.plugin_data.setdefault(_OUTPUTS, {}))
        return [*passes_for(self.style, self.int8_products, options, context.plugin_data), written]


def _one_of(name: str, given: str, known: Sequence[str]) -> str:
    if given not in known:
        raise OptionError(f"{name} is {given!r}{nearest(str(given), known)}; it may be {' or '.join(map(repr, known))}")
    return given


def passes_for(style: str, int8_products: str, options: Options, plugin_data: Mapping[Any, Any]) -> list[ir.passes.InPlacePass]:
    """Return the passes for a style.

    Those that round, or only serve ONNX Runtime, are for the target "onnxruntime" alone.

    Raises OptionError for ONNX Runtime's operators in a file for every runtime.
    """
    weights = [ArrangeWeights(), NarrowWeights()]
    folded = FoldScales(plugin_data, every=int8_products == "all")
    weights = [*weights, FloatWeights()] if int8_products == "none" else [folded, *weights]
    passes: list[ir.passes.InPlacePass] = [*weights, DequantizeAfterLayout(), QuantizeBeforeLayout()]
    if options.target == "onnxruntime":
        passes = [Averages(), *passes, UnsignedActivations(), Int32Bias()]
    elif style == "ort":
        raise OptionError(f"style='ort' writes operators of ONNX Runtime, and the target is {options.target!r}: choose one")
    styled = [*passes, OperatorStyle(style)]
    if options.target == "onnxruntime":
        styled += [OwnBiases(), FloatKernels()]
    return [*styled, CheckWeights(plugin_data)]


class FloatKernels(QuantizedPass):
    """Put a Clip without bounds before an operator that is faster in float.

    ONNX Runtime fuses an operator with the DequantizeLinear and QuantizeLinear next to it. It leaves such a Clip in the graph.

    Measured on 8×12×128×128 integers: softmax takes 5.9 ms in QLinearSoftmax, and 6 percent of the results are one step off; in
    float, with both conversions, it takes 1.7 ms. An average of windows takes 1.6 ms in QLinearAveragePool, and 0.25 ms in float.
    """

    operators = frozenset({"Softmax", "AveragePool"})

    def rewrite(self, node: ir.Node, editor: GraphEditor) -> bool:
        x, quantize = node.inputs[0], sole_user(node.outputs[0])
        if x is None or producer(x, "DequantizeLinear") is None or quantize is None or quantize.op_type != "QuantizeLinear":
            return False
        node.replace_input_with(0, editor.insert(node, "Clip", [x], like=x, dtype=ir.DataType.FLOAT))
        return True
