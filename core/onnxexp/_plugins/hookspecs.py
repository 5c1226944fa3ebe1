"""The hooks of plugins, as pluggy's specifications.

Mark implementations with `onnxexp.hookimpl`. An implementation takes the parameters that it needs, by their names here, and
leaves out the others. Every hook may take `context`: the `ExportContext` of the export, in whose `plugin_data` a plugin passes
data from one hook to another (`prepare_session` is no part of an export, and has none). Plugins are called in the order of their
names, those passed to `export` first; pluggy's ``tryfirst`` and ``trylast`` change that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import pluggy

if TYPE_CHECKING:
    import onnx_ir as ir
    import onnxruntime
    import torch

    from onnxexp._builder.builder import Builder
    from onnxexp._builder.tensor import Tensor
    from onnxexp._capture.captured_program import CapturedProgram
    from onnxexp._checking.mismatch_report import MismatchReport
    from onnxexp._neutral_graph import Graph, Node
    from onnxexp._program.program import ONNXProgram
    from onnxexp._request.dynamic_shapes import DynamicSpec
    from onnxexp._request.export_context import ExportContext
    from onnxexp._request.options import Options

PROJECT = "onnxexp"
NAMESPACES = f"{PROJECT}_namespaces"
"""The attribute of a marked function with the namespaces of its nodes."""
_hookspec = pluggy.HookspecMarker(PROJECT)
_Function = TypeVar("_Function", bound="Callable[..., Any]")


@overload
def hookimpl(function: _Function, /) -> _Function: ...


@overload
def hookimpl(
    *, namespaces: Collection[str] = ..., tryfirst: bool = ..., trylast: bool = ..., specname: str | None = ...
) -> Callable[[_Function], _Function]: ...


def hookimpl(
    function: _Function | None = None,
    /,
    *,
    namespaces: Collection[str] = (),
    tryfirst: bool = False,
    trylast: bool = False,
    specname: str | None = None,
) -> _Function | Callable[[_Function], _Function]:
    """Mark a function or a method as an implementation of the hook of its name.

    Use it as ``@hookimpl``, or with options as ``@hookimpl(trylast=True)``.

    Args:
        function: The function to mark.
        namespaces: For `lower_node`: the namespaces of the operators that it may lower, such as ``["my_vendor"]``. It is not
            called for nodes of others, which makes exports faster. Empty for all.
        tryfirst: Whether it comes before those of other plugins.
        trylast: Whether it comes after those of other plugins.
        specname: The name of the hook, where the function has another one.

    Raises:
        TypeError: `namespaces` is no list of names without ``::``.
    """
    if isinstance(namespaces, str) or any(not each or ":" in each for each in namespaces):
        raise TypeError(f"namespaces is {namespaces!r}; to fix this, give a list of names without '::', such as ['aten']")

    def mark(function: _Function) -> _Function:
        if namespaces:
            setattr(function, NAMESPACES, frozenset(namespaces))
        return pluggy.HookimplMarker(PROJECT)(function, tryfirst=tryfirst, trylast=trylast, specname=specname)

    return mark if function is None else mark(function)


@_hookspec
def capture_context(options: Options, context: ExportContext) -> AbstractContextManager[Any] | None:
    """Surround the capture of the model.

    When:
        Once per export, before the core flattens the example and the frontend captures the model.
    Parameters:
        options: The options of the export: opset, training mode, ….
        context: The options again, `plugin_data`, `dense_forms` for tensors that ONNX lacks, and `redirect`, which replaces
            functions of torch for the model's forward without an effect on other threads.
    Result:
        A context manager that is entered before the capture and left after it, or None. It may patch what `redirect` cannot: only
        one export captures at a time. Classes of inputs and outputs may be registered with torch's pytree.
    First or all:
        All.
    Example:
        Keep a marker in the captured graph wherever a class of the user's is called::

            @onnxexp.hookimpl
            def capture_context(options):
                return unittest.mock.patch.object(my_layers.Router, "forward", my_layers.captured_forward)
    """


@_hookspec(firstresult=True)
def capture(
    model: torch.nn.Module | torch.export.ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    spec: DynamicSpec,
    options: Options,
    context: ExportContext,
) -> CapturedProgram | torch.nn.Module | None:
    """Capture a model as a neutral graph.

    When:
        Once per export, inside every `capture_context`. With ``capture="auto"`` once more if torch.export refuses the model:
        then `options.capture` is ``"trace"``, and the core adds the reason of the refusal to the warning or error.
    Parameters:
        model: The module, or an ExportedProgram. A function or a ScriptFunction comes wrapped as a module.
        args, kwargs: The example's arguments; tensors that ONNX lacks are in the form that a plugin has for them.
        spec: The leaves of the example, their names, and the dynamic axes.
        options: The options of the export; `options.capture` is "auto", "export", "trace" or "script".
        context: The options of the call, and `plugin_data`.
    Result:
        A `CapturedProgram`, or None for a model that belongs to another frontend. Or a module, which the frontends after this
        one take in place of the model; its forward has the same parameters. The hook raises CaptureError for a model of
        its own that it cannot capture. [Write a frontend](api/frontends.md) lists the modules that help.
    First or all:
        The first plugin that does not pass. torch.export's frontend, the core's own, comes last: it takes every module under
        "auto" and "export" that is no TorchScript, and every ExportedProgram.
    Example:
        Modules of a class that has its operators in a list::

            @onnxexp.hookimpl
            def capture(model, args, kwargs, spec, options):
                if not isinstance(model, my_layers.Chain):
                    return None
                (x,) = args
                values = [Value(spec.input_names[0], TensorType(x.dtype, tuple(x.shape)))]
                graph = Graph(inputs=values[:])
                for name in model.operators:
                    values.append(Value(name, values[0].type))
                    graph.nodes.append(Node(f"aten::{name}", [values[-2]], [values[-1]]))
                graph.outputs = values[-1:]
                in_spec, out_spec = pytree.tree_structure((tuple(args), dict(kwargs))), pytree.tree_structure(x)
                return CapturedProgram(graph, in_spec, out_spec)
    """


@_hookspec
def pre_pass(options: Options, context: ExportContext) -> Callable[[Graph], Any] | Sequence[Callable[[Graph], Any]] | None:
    """Return passes that rewrite the captured graph.

    When:
        Once per export, after capture. The core runs the passes before the first node is lowered.
    Parameters:
        options: The options of the export.
        context: The options again, and `plugin_data`.
    Result:
        A pass, a list of passes, or None. A pass is called with the `Graph` and changes it in place. It returns False where it
        changed nothing; the plugin is then not listed among those that took part. Its name is its attribute `name`, or the
        name of its class or function. Timings, `skip_passes` and errors name it with its plugin: ``my-plugin/drop-asserts``.
    First or all:
        All, by the plugins' names; then the passes whose attribute `last` is true.
    Example:
        Drop nodes that have no meaning in ONNX::

            @onnxexp.hookimpl
            def pre_pass(options):
                def drop_asserts(graph):
                    graph.nodes[:] = [node for node in graph.nodes if node.op != "aten::_assert_async.msg"]
                return drop_asserts
    """


@_hookspec(firstresult=True)
def lower_node(op: Builder, node: Node, context: ExportContext) -> Tensor | Sequence[Any] | None:
    """Lower a captured node for which a table of symbolics is not enough.

    When:
        For each node, before the tables; also for the nodes of a decomposition. `hookimpl` takes the namespaces of those that an
        implementation may lower.
    Parameters:
        op: The builder. `op.args` are the node's arguments as a symbolic gets them: every argument of the torch schema, in order,
            Tensors and Python constants.
        node: The node: `node.op` is the full name (``aten::add.Tensor``), `node.outputs` have the types that torch computed.
        context: The context of the export, also at `op.context`.
    Result:
        A Tensor or a list with one for each output, or None to pass. `op.decline(reason)` passes too; the reason goes into the
        error if no plugin lowers the node.
    First or all:
        The first plugin that does not pass.
    Example:
        Every operator of a namespace as an operator of a domain of the same name::

            @onnxexp.hookimpl(namespaces=["my_vendor"])
            def lower_node(op, node):
                name = node.op.partition("::")[2].partition(".")[0]
                return op.domain("my.vendor").call(name, *op.args)
    """


@_hookspec
def post_pass(
    options: Options, context: ExportContext
) -> ir.passes.InPlacePass | Callable[[ir.Model], Any] | Sequence[Any] | None:
    """Return passes that rewrite the finished model.

    When:
        Once per export, after lowering.
    Parameters:
        options: The options of the export.
        context: The options again, and `plugin_data`.
    Result:
        A pass, a list of passes, or None. A pass is an `onnx_ir.passes.InPlacePass`, or a function that is called with the
        `onnx_ir.Model` and changes it in place. Names are as for `pre_pass`. The opset and the names, dtypes and order of the
        graph's inputs and outputs stay as they are.
    First or all:
        All, by the plugins' names; then the passes whose attribute `last` is true, as those that clean up.
    Example:
        One of onnx-ir's own passes::

            @onnxexp.hookimpl
            def post_pass(options):
                return onnx_ir.passes.common.CommonSubexpressionEliminationPass()
    """


@_hookspec(firstresult=True)
def serialize(program: ONNXProgram, path: Path, options: Any, context: ExportContext) -> bool | None:
    """Write the model in a format of the plugin's own.

    When:
        Once per `ONNXProgram.save` to a path (not to a file object), before the core's own writer.
    Parameters:
        program: The program to save.
        path: The path of the file.
        options: The `WriteOptions`: `external_data`.
        context: The context of the export; its `plugin_data` is empty by now.
    Result:
        True if it wrote the file, else None. Where it fails it must leave an existing file as it was.
    First or all:
        The first plugin that returns True.
    Example:
        A text form for files that end in ``.onnxtxt``::

            @onnxexp.hookimpl
            def serialize(program, path, options):
                if path.suffix == ".onnxtxt":
                    path.write_text(onnx.printer.to_text(program.model_proto))
                    return True
    """


@_hookspec
def prepare_session(model: ir.Model, options: onnxruntime.SessionOptions, context: ExportContext | None) -> ir.Model | None:
    """Prepare a model for ONNX Runtime, and the options of its session.

    When:
        Before each load of a model into ONNX Runtime: at the first call of an `ONNXProgram`, in `verify`, in ``onnxexp verify``.
    Parameters:
        model: The model, which stays as it is.
        options: The options of the session, for libraries of custom operators for instance.
        context: The context of the export; None for a file that another process may have exported.
    Result:
        Another model to load in its place, or None. Inputs and outputs are those of `model`.
    First or all:
        All, by the plugins' names; each gets the model of the one before it.
    Example:
        A library with the kernels of a domain::

            @onnxexp.hookimpl
            def prepare_session(model, options):
                if "my.domain" in model.opset_imports:
                    options.register_custom_ops_library(my_kernels.path())
    """


@_hookspec(firstresult=True)
def write_report(
    program: ONNXProgram,
    path: Path,
    mismatch: MismatchReport | None,
    profile: bool,
    warnings: Sequence[str],
    problems: Sequence[str],
    context: ExportContext,
) -> bool | None:
    """Write a report on a program for people to look at.

    When:
        At each `ONNXProgram.report`, and at ``onnxexp export --report``.
    Parameters:
        program: The exported program.
        path: Where to write it.
        mismatch: The result of `ONNXProgram.find_mismatch`, where errors are to be shown.
        profile: Whether to show the time that each operator takes in ONNX Runtime.
        warnings: The warnings of the export.
        problems: Why operators could not be lowered, with the fixes; they are nodes of torch's domains in the program.
        context: The context of the export.
    Result:
        True once the file is written; None for a path that another plugin writes. An earlier file must be unharmed by an error.
    First or all:
        The first plugin that does not pass.
    Example:
        A list of the operators::

            @onnxexp.hookimpl
            def write_report(program, path):
                if path.suffix == ".txt":
                    path.write_text("\\n".join(node.op_type for node in program.model.graph))
                    return True
    """
