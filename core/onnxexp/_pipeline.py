"""Export a model, through every stage from top to bottom."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, Literal

import onnx_ir as ir
import torch

from onnxexp._capture import choose_frontend
from onnxexp._capture.model_weights import Weights, find_weights, with_weights
from onnxexp._capture.preserved_model import run_original
from onnxexp._capture.private_model import private_model
from onnxexp._capture.torch_state import LOCK
from onnxexp._lowering.assemble import assemble
from onnxexp._lowering.build import Build
from onnxexp._lowering.graph_io import call_signature, graph_outputs, name_graph_io
from onnxexp._lowering.keep_torch_ops import export_type_of, warn_of_torch
from onnxexp._model.declared_sizes import shorten_sizes
from onnxexp._passes.manager import Passes
from onnxexp._plugins import loading as plugin_loading
from onnxexp._program.plugin_hooks import prepare_session, report_program, write_program
from onnxexp._program.program import ONNXProgram
from onnxexp._request import config as configuration
from onnxexp._request.example_call import read_call
from onnxexp._request.export_context import ExportContext
from onnxexp._request.options import Options, refuse_unknown
from onnxexp._request.training_mode import TrainingMode

_NEW_OBJECTS = 10_000
"""How many objects are made before Python searches for garbage; its default is 700."""


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python search for garbage less often for a while.

    An export makes many objects that stay, and few cycles. The first one in a process takes a tenth less time.
    """
    before = gc.get_threshold()
    is_lower = 0 < before[0] < _NEW_OBJECTS  # 0 switches the collections off; another export may have raised it
    if is_lower:
        gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        if is_lower:
            gc.set_threshold(*before)


@refuse_unknown
@rare_collections()
def export(
    model: torch.nn.Module | torch.export.ExportedProgram | Callable[..., Any],
    args: Any = (),
    f: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    target: str | None = None,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    capture: str = "auto",
    training: TrainingMode | str = TrainingMode.EVAL,
    operator_export_type: Any = "ONNX",
    fallback: Literal["torch"] | None = None,
    plugins: Sequence[Any] | None = None,
    without: Sequence[str] = (),
    prefer: Mapping[str, str] | None = None,
    skip_passes: Sequence[str] = (),
    custom_opsets: Mapping[str, int] | None = None,
    weights: Weights | None = None,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    do_constant_folding: bool = True,
    external_data: bool | None = None,
    verify: bool | Literal["sizes"] = False,
    strip: bool = False,
    verbose: bool = False,
    debug: bool | None = None,
    check_sizes: bool | None = None,
) -> ONNXProgram:
    """Export a PyTorch model to ONNX.

    Args:
        model: An `nn.Module`, a callable, or a `torch.export.ExportedProgram` (then `args` may be left out).
        args: The example's positional arguments, a tuple (or one tensor). A dict as the last element is the keyword
            arguments; to pass a dict as an argument, append an empty dict.
        f: A path or a binary file object to write the model to; None only returns the program.
        kwargs: The example's keyword arguments.
        input_names, output_names: Names of the graph's inputs and outputs, in order; see `onnxexp._request.io_names` for the
            defaults.
        opset_version: The ONNX opset of the model, 9 to 28. The default is the configured opset, else 20. The result always has
            exactly this opset.
        target: "onnxruntime" (the default unless configured) replaces calls without a kernel in ONNX Runtime by other operators
            or another dtype. "onnx" uses each operator as the specification defines it. Plugins bring others.
        dynamic_shapes: The dynamic axes in the form of `torch.export.export`; names (``{"x": {0: "batch"}}``) are allowed.
        dynamic_axes: The dynamic axes in the form of torch.onnx: ``{"x": {0: "batch"}, "y": [0]}``.
        capture: "export" captures through torch.export, "trace" through torch.jit.trace, "script" through torch.jit.script;
            "auto" tries torch.export first, then traces with a warning. TorchScript needs onnxexp-plugin-torchscript.
        operator_export_type: The treatment of operators that ONNX lacks: "ONNX" (an error), "ONNX_FALLTHROUGH" (kept in their
            own domain), "ONNX_ATEN_FALLBACK" (ATen nodes), "ONNX_ATEN" (all operators become ATen nodes), "RAW" (all operators
            are kept, and the captured graph is printed).
        fallback: "torch" keeps operators that no plugin lowers, as nodes that onnxexp-plugin-custom-cpp runs by calling torch. A
            warning names them. It is the export type "ONNX_ATEN_FALLBACK".
        training: The mode of the exported model: inference (EVAL), unchanged (PRESERVE), or training (TRAINING).
        plugins: Exactly these plugins: names of installed ones, and SymbolicTables or objects with hooks, which win over those.
            The literal ``...`` stands for every other installed plugin (``[my_table, ...]``). An object replaces an installed
            plugin of its class. None selects every installed plugin.
        without: Names of plugins to leave out.
        prefer: The plugin that lowers an operator which several claim: ``{"aten::gelu": "my-plugin"}``.
        skip_passes: Passes to skip, as ``name`` or ``plugin/name``.
        custom_opsets: The imported versions of domains other than ONNX's own.
        weights: The weights of the model, whose own may be on the meta device: the path of a safetensors checkpoint (a file, an
            index of several, or a folder with one of the two), which is mapped into memory and read while the file is written;
            or tensors by name. The names are those of the model's `state_dict`. The model itself stays as it is.
        export_params: False turns the parameters into inputs of the graph.
        keep_initializers_as_inputs: True also lists the parameters among the graph's inputs, so that a caller can override them.
        do_constant_folding: False keeps computations on constants in the graph.
        external_data: True writes the weights into a file beside `f`, False writes one file; None splits only above 2 GB.
        verify: Compare the program with the model in ONNX Runtime, before the file is written: True on the example, repeated to
            other sizes of the dynamic axes; "sizes" on the example, and on random inputs at other sizes.
        strip: Leave the origin of each node (module, source line, operator, symbolic) out of the file.
        verbose: Print the finished graph.
        debug: Check the graph after every pass.
        check_sizes: False skips the second trace, which shows what a trace fixes on a dynamic axis.

    Returns:
        The program: the model, with methods to save, run, verify and print it.

    Raises:
        OptionError: An argument is malformed or cannot be honoured.
        CaptureError: The model could not be captured.
        LoweringError: Operators could not be lowered (UnsupportedOperators, OpsetError).
        PassError: A pass failed or broke the graph.
        PluginError: A plugin is missing, does not load, or conflicts with another.
        SerializeError: The file could not be written.
        VerificationError: `verify` found a difference.
    """
    config = configuration.load(plugins=plugins, disable=without, prefer=prefer, skip_passes=skip_passes, opset=opset_version,
                                target=target, debug=debug, check_sizes=check_sizes)  # fmt: skip
    loaded = plugin_loading.load(config)
    options = Options.read(config, claims=loaded.dispatcher.claims, capture=capture, training=training,
                           custom_opsets=custom_opsets, export_params=export_params, do_constant_folding=do_constant_folding,
                           keep_initializers_as_inputs=keep_initializers_as_inputs)  # fmt: skip
    export_type = export_type_of(operator_export_type, fallback)
    context = ExportContext(options)
    passes = Passes(loaded, context)
    seconds, clock = _clock()
    with clock("capture"), LOCK, loaded.capturing(context):  # plugins may patch torch: one capture at a time
        call = read_call(model, args, kwargs, capture=options.capture, dynamic_shapes=dynamic_shapes, dynamic_axes=dynamic_axes,
                         input_names=input_names, output_names=output_names)  # fmt: skip
        call.weights = find_weights(call.model, weights)
        with with_weights(private_model(call.model), call.weights) as private:
            captured = choose_frontend.capture(loaded, private, call.args, call.kwargs, call.spec, context)
        io = name_graph_io(captured, call.spec, output_names)
    with clock("pre passes"):
        passes.pre(captured.graph)
    if export_type.verbose:
        print(captured.graph)
    build = Build(captured, io, call, loaded, context, export_type, export_params, keep_initializers_as_inputs, passes)
    with clock("lower"):
        lowering, parameters, results = build.lower()
    with clock("assemble"), contextlib.closing(lowering.builder):
        onnx_model = assemble(lowering.builder, graph_outputs(io, results))
        record = build.record(lowering)
    with clock("post passes"):
        passes.post(onnx_model)
        onnx_model.metadata_props.update(_metadata(loaded, context, onnx_model) | warn_of_torch(lowering.kept, export_type))
    program = ONNXProgram(
        onnx_model, signature=call_signature(captured, io, call, context), example=(call.args, call.kwargs), weights=parameters,
        eager=partial(run_original, call, context), plugins_used=loaded.used_plugins, timings=seconds, spec=call.spec,
        lowered=lowering.lowered, pass_timings=passes.seconds, write=partial(write_program, loaded, context), record=record,
        prepare=partial(prepare_session, loaded, context), write_report=partial(report_program, loaded, context),
    )  # fmt: skip
    if verify:
        with clock("verify"):
            program.verify(inputs=verify if isinstance(verify, str) else "repeated")
    if f is not None:
        with clock("write"):
            program.save(f, external_data=external_data, strip=strip)
    if verbose:
        print(program)
    return program


def _metadata(loaded: plugin_loading.Plugins, context: ExportContext, model: ir.Model) -> dict[str, str]:
    """Shorten the model's long sizes, and return the metadata, which lists them."""
    metadata = {"onnxexp.plugins": "; ".join(plugin.origin or plugin.name for plugin in loaded.used_plugins())}
    metadata |= shorten_sizes(model)
    if context.restrictions:
        metadata["onnxexp.restrictions"] = "; ".join(context.restrictions)
    return metadata


def _clock() -> tuple[dict[str, float], Callable[[str], contextlib.AbstractContextManager[None]]]:
    """Return the wall-clock seconds by stage, and a function that times a block."""
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def clock(stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[stage] = time.perf_counter() - start

    return seconds, clock
