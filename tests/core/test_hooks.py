"""Every hook as plugins use it, and implementations that fail."""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp import (
    Builder,
    CaptureError,
    LoweringError,
    ONNXProgram,
    OptionError,
    Options,
    PassError,
    PluginError,
    SerializeError,
    hookimpl,
)
from onnxexp._capture.captured_program import CapturedProgram
from onnxexp._plugins import discovery, hookspecs
from onnxexp._plugins.plugin import HOOKS
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp.graph import Graph, Node, TensorType, Value
from tests.core.tiny import export

X = torch.randn(2, 3)
SECTIONS = ("When", "Parameters", "Result", "First or all", "Example")


class Pack:
    """A plugin whose hooks are given as functions."""

    def __init__(self, **hooks: Any) -> None:
        for name, function in hooks.items():
            setattr(self, name, hookimpl(function))


def run(model: Any = None, /, **hooks: Any) -> ONNXProgram:
    options = hooks.pop("options", {})
    return export(model or torch.nn.ReLU(), (X,), plugins=[Pack(**hooks)], **options)


# Documentation


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented(hook: str) -> None:
    text = inspect.getdoc(vars(hookspecs)[hook]) or ""
    headings = re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)
    assert tuple(headings) == SECTIONS
    parameters = text[text.index("Parameters:") : text.index("Result:")]
    assert all(f"{name}:" in parameters for name in inspect.signature(vars(hookspecs)[hook]).parameters)


def test_an_export_that_is_saved_calls_every_hook(tmp_path: Path) -> None:
    called: list[str] = []

    def recorded(hook: str) -> Any:
        """Build an implementation with the hook's parameters: pluggy matches them by name."""
        parameters = ", ".join(inspect.signature(vars(hookspecs)[hook]).parameters)
        return eval(f"lambda {parameters}: called.append(hook)", {"called": called, "hook": hook})

    program = run(**{hook: recorded(hook) for hook in HOOKS})
    program.save(tmp_path / "model.onnx")
    program.verify()
    with pytest.raises(PluginError, match="no plugin writes a report"):  # the hook passes
        program.report(tmp_path / "report.html")
    assert set(called) == set(HOOKS)


def test_the_hooks_are_those_of_the_specifications() -> None:
    functions = {
        name for name, each in inspect.getmembers(hookspecs, inspect.isfunction) if each.__module__ == hookspecs.__name__
    }
    assert functions - {"hookimpl"} == set(HOOKS)


# capture_context


def test_capture_context_surrounds_the_capture() -> None:
    said: list[str] = []

    @contextlib.contextmanager
    def surrounding() -> Iterator[None]:
        said.append("in")
        yield
        said.append("out")

    def capture_context(options: Options) -> Any:
        said.append(f"opset {options.opset}")
        return surrounding()

    class Told(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.compiler.is_exporting():
                said.append("captured")
            return x.relu()

    run(Told(), capture_context=capture_context)
    assert said == ["opset 20", "in", "captured", "out"]


@pytest.mark.parametrize("fails", [False, True])
def test_the_capture_contexts_of_several_plugins(fails: bool) -> None:
    said: list[str] = []

    @contextlib.contextmanager
    def surrounding(name: str) -> Iterator[None]:
        if fails and name == "second":
            raise KeyError(name)
        said.append(f"in {name}")
        yield
        said.append(f"out {name}")

    packs = [Pack(capture_context=lambda options, name=name: surrounding(name)) for name in ("first", "second")]
    outcome = pytest.raises(PluginError, match="failed: KeyError") if fails else contextlib.nullcontext()
    with outcome:
        export(torch.nn.ReLU(), (X,), plugins=packs)
    assert said == (["in first"] if fails else ["in first", "in second", "out second", "out first"])


def test_a_plugin_makes_inputs_and_results_dense() -> None:
    named: list[str] = []

    def form(tensor: torch.Tensor, name: str) -> Any:
        named.append(name)
        return torch.Tensor.to_dense if tensor.layout is torch.sparse_coo else None

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + x, y + y

    dense = torch.eye(3)
    pack = Pack(capture_context=lambda context: context.dense_forms.append(form))
    program = export(Twice(), (dense,), kwargs={"y": dense.to_sparse()}, plugins=[pack])
    assert torch.equal(program(dense, y=dense.to_sparse())[1], 2 * dense)
    assert program.verify().ok
    assert named == ["x", "y", "", ""]


def test_what_a_capture_context_gives_is_none_or_a_context() -> None:
    assert run(capture_context=lambda options: None).model
    with pytest.raises(
        PluginError, match="the hook capture_context of the plugin .* failed: .*(context manager|__enter__|__exit__)"
    ):
        run(capture_context=lambda options: 3)


def test_a_capture_context_that_fails() -> None:
    def capture_context(options: Options) -> Any:
        raise KeyError("accelerator")

    with pytest.raises(
        PluginError, match=r"the hook capture_context of the plugin 'inline Pack 1' at .*test_hooks.py:\d+ failed: KeyError"
    ):
        run(capture_context=capture_context)


def test_an_error_of_the_capture_is_not_the_contexts() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(7)

    with pytest.raises(onnxexp.CaptureError):
        run(Broken(), capture_context=lambda options: contextlib.nullcontext())


# capture


class Chain(torch.nn.Module):
    """Unary operators, one after the other; its forward is for eager PyTorch only."""

    def __init__(self, *operators: str) -> None:
        super().__init__()
        self.operators = operators

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not torch.compiler.is_exporting(), "torch.export is not to see it"
        for name in self.operators:
            x = getattr(torch, name)(x)
        return x


def capture_chain(model: Any, args: Any, kwargs: Any, spec: DynamicSpec) -> CapturedProgram | None:
    if not isinstance(model, Chain):
        return None
    (x,) = args
    sizes = tuple(f"s{axis}" if axis in spec.axes[0] else size for axis, size in enumerate(x.shape))
    values = [Value(spec.input_names[0], TensorType(x.dtype, sizes))]
    graph = Graph(inputs=values[:])
    for name in model.operators:
        values.append(Value(name, values[0].type))
        graph.nodes.append(Node(f"aten::{name}", [values[-2]], [values[-1]]))
    graph.outputs = values[-1:]
    in_spec, out_spec = pytree.tree_structure((tuple(args), dict(kwargs))), pytree.tree_structure(x)
    return CapturedProgram(graph, in_spec, out_spec)


def test_capture_is_a_frontend_of_a_third_party() -> None:
    program = run(Chain("neg", "relu"), capture=capture_chain, options={"dynamic_shapes": ({0: "n"},)})
    assert [node.op_type for node in program.model.graph] == ["Neg", "Relu"]
    assert [plugin.name for plugin in program.plugins] == ["inline Pack 1", "inline aten"]
    program.verify((torch.randn(5, 3),))


def test_a_capture_that_passes_leaves_the_model_to_torch_export() -> None:
    asked: list[str] = []

    def capture(model: Any, options: Options) -> None:
        asked.append(options.capture)

    program = run(torch.nn.ReLU(), capture=capture)
    assert asked == ["auto"] and [plugin.name for plugin in program.plugins] == ["inline aten"]


def test_a_capture_gives_the_next_ones_another_model() -> None:
    program = run(torch.nn.Hardtanh(), capture=lambda model: torch.nn.Tanh())
    assert [node.op_type for node in program.model.graph] == ["Tanh"]
    assert [plugin.name for plugin in program.plugins] == ["inline Pack 1", "inline aten"]


def test_captures_are_asked_by_the_names_of_their_plugins() -> None:
    asked: list[str] = []

    class Zebra(Pack): ...

    class Aardvark(Pack): ...

    def passing(name: str) -> Any:
        return lambda model: asked.append(name)

    packs = [Zebra(capture=passing("zebra")), Aardvark(capture=passing("aardvark"))]
    for order in (packs, packs[::-1]):
        export(torch.nn.ReLU(), (X,), plugins=order)
    assert asked == ["aardvark", "zebra"] * 2


def test_a_capture_is_asked_to_trace_what_torch_export_refused() -> None:
    """Capture "auto" does so, with torch.export's reason in the warning."""
    asked: list[str] = []

    def capture(model: Any, args: Any, options: Options, spec: DynamicSpec) -> CapturedProgram | None:
        asked.append(options.capture)
        return capture_chain(Chain("relu"), args, {}, spec) if options.capture == "trace" else None

    def branching(x: torch.Tensor) -> torch.Tensor:
        return x.relu() if x.sum() > 0 else x

    with pytest.warns(UserWarning, match="(?s)torch.export failed, so the model was traced.*Why it failed: .*strict=False"):
        program = run(branching, capture=capture)
    assert asked == ["auto", "trace"] and [node.op_type for node in program.model.graph] == ["Relu"]
    with pytest.raises(CaptureError, match="strict=False"):
        run(branching, capture=capture, options={"capture": "export"})
    assert asked[2:] == ["export"]


def test_a_capture_that_fails_or_returns_something_else() -> None:
    def raising(model: Any) -> Any:
        raise KeyError("layer")

    def refusing(model: Any) -> Any:
        raise CaptureError("no such layer")

    with pytest.raises(PluginError, match=r"the hook capture of the plugin 'inline Pack 1' at .*:\d+ failed: KeyError: 'layer'"):
        run(capture=raising)
    with pytest.raises(CaptureError, match="^no such layer$"):
        run(capture=refusing)
    with pytest.raises(PluginError, match="the hook capture of the plugin .* returned 3, which is no CapturedProgram"):
        run(capture=lambda model: 3)


@pytest.mark.parametrize("how", ["trace", "script", "auto", "scripted"])
def test_without_the_torchscript_plugin_the_error_ends_with_the_fix(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def branching(x: torch.Tensor) -> torch.Tensor:
        return x.relu() if x.sum() > 0 else x

    others = tuple(plugin for plugin in discovery.discover() if plugin.name != "torchscript")
    monkeypatch.setattr(discovery, "discover", lambda *_: others)
    model = torch.jit.script(torch.nn.ReLU()) if how == "scripted" else branching
    with pytest.raises(CaptureError) as raised:
        export(model, (X,), **({} if how == "scripted" else {"capture": how}))
    fix = "needs the TorchScript frontend, which is not installed; to fix this, run\n  pip install onnxexp-plugin-torchscript"
    assert str(raised.value).endswith(fix)
    assert ("strict=False" in str(raised.value)) == (how == "auto")


# lower_node


def test_lower_node_is_asked_before_the_tables() -> None:
    seen: list[str] = []

    def lower_node(op: Builder, node: Node) -> Any:
        seen.append(node.op)
        return op.domain("my.vendor").call("Relu6", *op.args) if node.op.startswith("aten::relu") else None

    program = run(lambda x: x.neg().relu(), lower_node=lower_node)
    assert [(node.domain, node.op_type) for node in program.model.graph] == [("", "Neg"), ("my.vendor", "Relu6")]
    assert len(seen) == 2 and program.model.opset_imports["my.vendor"] == 1
    assert [by for _, by in program.lowered] == ["inline aten", "inline Pack 1"]


def test_lower_node_is_called_for_its_namespaces_only() -> None:
    seen: list[str] = []

    class Vendors:
        @hookimpl(namespaces=["prims", "my_vendor"])
        def lower_node(self, op: Builder, node: Node) -> Any:
            seen.append(node.op)
            return op.Neg(op.args[0])

    class All:
        @hookimpl(tryfirst=True)
        def lower_node(self, node: Node) -> Any:
            seen.append(f"all {node.op}")

    export(lambda x: torch.ops.prims.neg(x).relu(), (X,), plugins=[Vendors(), All(), "aten"])
    assert [name.removesuffix(".default") for name in seen] == ["all prims::neg", "prims::neg", "all aten::relu"]


def test_a_hook_that_will_go_warns_when_its_plugin_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    old = DeprecationWarning("pre_pass goes in onnxexp 0.3; implement post_pass")
    monkeypatch.setitem(vars(hookspecs.pre_pass)["onnxexp_spec"], "warn_on_impl", old)
    monkeypatch.setitem(vars(hookspecs.post_pass)["onnxexp_spec"], "warn_on_impl_args", {"context": old})
    for hooks in ({"pre_pass": lambda options: None}, {"post_pass": lambda context: None}):
        with pytest.warns(DeprecationWarning, match="pre_pass goes in onnxexp 0.3") as caught:
            run(**hooks)
        assert caught[0].filename == __file__, "the line of the implementation"
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        run(post_pass=lambda options: None)


def test_a_lower_node_that_declines_leaves_its_reason() -> None:
    def lower_node(op: Builder, node: Node) -> Any:
        op.decline("only on Tuesdays")

    assert [node.op_type for node in run(lower_node=lower_node).model.graph] == ["Relu"]
    with pytest.raises(LoweringError, match="only on Tuesdays"):
        run(torch.special.i0, lower_node=lower_node)


@pytest.mark.parametrize(
    ("result", "message"),
    [("no tensor", "returned 'no tensor'; 1 Tensors were expected"), ((), r"returned \(\); 1 Tensors were expected")],
)
def test_a_lower_node_that_gives_no_tensor(result: Any, message: str) -> None:
    with pytest.raises(LoweringError, match=rf"the hook lower_node of the plugin 'inline Pack 1' at .*:\d+ {message}"):
        run(lower_node=lambda op, node: result)


def test_a_value_of_another_export_is_refused() -> None:
    kept: list[Any] = []

    def lower_node(op: Builder, node: Node) -> Any:
        kept.append(op.Relu(op.args[0]))
        return kept[0]

    run(lower_node=lower_node)
    with pytest.raises(LoweringError, match="a value of another export"):
        run(lower_node=lower_node)


def test_a_lower_node_that_raises_is_told_with_its_line() -> None:
    def lower_node(op: Builder, node: Node) -> Any:
        return {}[3]

    with pytest.raises(LoweringError, match=r"'inline Pack 1' at .*:\d+ failed in line \d+ \(return \{\}\[3\]\): KeyError"):
        run(lower_node=lower_node)


# pre_pass and post_pass


def drop_neg(graph: Graph) -> None:
    """Replace -x by x."""
    replaced = {node.outputs[0]: node.args[0] for node in graph.nodes if node.op == "aten::neg"}
    graph.nodes[:] = [node for node in graph.nodes if node.outputs[0] not in replaced]
    for node in graph.nodes:
        node.replace_inputs(lambda value: replaced.get(value, value))


class AbsForRelu(ir.passes.InPlacePass):
    """Relu as Abs."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for node in model.graph:
            if node.op_type == "Relu":
                node.op_type = "Abs"
        return ir.passes.PassResult(model, True)


class CleanUp(ir.passes.InPlacePass):
    """A pass that changes nothing, after all other passes."""

    last = True

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        return ir.passes.PassResult(model, False)


def test_pre_pass_rewrites_the_captured_graph() -> None:
    program = run(lambda x: x.neg().relu(), pre_pass=lambda options: drop_neg, options={"debug": True})
    assert [node.op_type for node in program.model.graph] == ["Relu"]
    assert "inline Pack 1/drop-neg" in program.pass_timings
    assert [plugin.name for plugin in program.plugins] == ["inline Pack 1", "inline aten"]


def test_post_pass_rewrites_the_model() -> None:
    program = run(post_pass=lambda options: [AbsForRelu()], options={"debug": True})
    assert [node.op_type for node in program.model.graph] == ["Abs"]
    assert list(program.pass_timings) == ["inline Pack 1/abs-for-relu"]


@pytest.mark.parametrize("name", ["abs-for-relu", "inline Pack 1/abs-for-relu"])
def test_a_pass_can_be_skipped(name: str) -> None:
    program = run(post_pass=lambda options: [AbsForRelu(), raise_nothing], options={"skip_passes": [name]})
    assert [node.op_type for node in program.model.graph] == ["Relu"]
    assert list(program.pass_timings) == ["inline Pack 1/raise-nothing"]


def test_a_pass_to_skip_that_nobody_brings() -> None:
    with pytest.raises(OptionError, match=r"no pass 'abs-for-rely' \(did you mean 'abs-for-relu'\?\); there are inline"):
        run(post_pass=lambda options: AbsForRelu(), options={"skip_passes": ["abs-for-rely"]})


def raise_nothing(model: ir.Model) -> bool:
    return False


def failing(model: Any) -> None:
    raise ZeroDivisionError("in the pass")


def other_model(model: ir.Model) -> ir.Model:
    return model.clone()


def rename_output(model: ir.Model) -> None:
    model.graph.outputs[0].name = "renamed"


def rename_input_untold(model: ir.Model) -> bool:
    model.graph.inputs[0].name = "renamed"
    return False  # which says that nothing was changed


def raise_opset(model: ir.Model) -> None:
    model.graph.opset_imports[""] = 21


def unknown_operator(model: ir.Model) -> None:
    next(iter(model.graph)).op_type = "Rely"


def forget_nodes(graph: Graph) -> None:
    graph.nodes.clear()


def repeat_nodes(graph: Graph) -> None:
    graph.nodes *= 2


def forget_input(graph: Graph) -> None:
    graph.inputs.clear()


@pytest.mark.parametrize(
    ("hook", "each", "debug", "message"),
    [
        ("post_pass", failing, False, "the pass inline Pack 1/failing of the plugin 'inline Pack 1' failed: ZeroDivisionError"),
        ("pre_pass", failing, False, "the pass inline Pack 1/failing of the plugin 'inline Pack 1' failed: ZeroDivisionError"),
        ("post_pass", other_model, False, "inline Pack 1/other-model .* returned Model instead of changing the Model in place"),
        (
            "post_pass",
            rename_output,
            False,
            "rename-output .* its outputs were .*'output'.*, now they are .*'renamed'",
        ),
        ("post_pass", rename_input_untold, False, "rename-input-untold .* its inputs were .*, now they are .*'renamed'"),
        ("post_pass", raise_opset, False, "raise-opset .* its opset were 20, now they are 21"),
        ("post_pass", unknown_operator, True, r"(?s)unknown-operator .* broke the graph: .*Rely.*skip_passes="),
        ("pre_pass", forget_nodes, True, "forget-nodes .* the graph returns %relu, which nothing makes"),
        ("pre_pass", repeat_nodes, True, "repeat-nodes .* makes %relu a second time"),
        ("pre_pass", forget_input, False, r"forget-input .* its inputs were \('.*',\), now they are \(\)"),
        ("pre_pass", "no function", False, "returned 'no function', which is not callable"),
    ],
)
def test_a_pass_that_fails_or_breaks_the_graph_is_blamed(hook: str, each: Any, debug: bool, message: str) -> None:
    with pytest.raises(PassError, match=message):
        run(options={"debug": debug}, **{hook: lambda options: each})


def test_a_hook_that_fails_to_give_its_passes() -> None:
    def post_pass(options: Options) -> Any:
        raise KeyError("no passes today")

    with pytest.raises(PassError, match=r"the hook post_pass of the plugin 'inline Pack 1' at .* failed: KeyError"):
        run(post_pass=post_pass)


def test_passes_run_by_the_names_of_their_plugins() -> None:
    class Zebra(Pack): ...

    class Aardvark(Pack): ...

    def first(model: ir.Model) -> None: ...

    def second(model: ir.Model) -> None: ...

    packs = [Zebra(post_pass=lambda options: second), Aardvark(post_pass=lambda options: first)]
    for order in (packs, packs[::-1]):
        names = list(export(torch.nn.ReLU(), (X,), plugins=order).pass_timings)
        assert [name.rpartition("/")[2] for name in names] == ["first", "second"]


def test_a_pass_that_cleans_up_runs_after_those_of_other_plugins() -> None:
    class Aardvark(Pack): ...

    class Zebra(Pack): ...

    packs = [Aardvark(post_pass=lambda options: [CleanUp(), raise_nothing]), Zebra(post_pass=lambda options: AbsForRelu())]
    names = list(export(torch.nn.ReLU(), (X,), plugins=packs).pass_timings)
    assert [name.rpartition("/")[2] for name in names] == ["raise-nothing", "abs-for-relu", "clean-up"]


# serialize


def test_serialize_takes_the_place_of_the_cores_writer(tmp_path: Path) -> None:
    def serialize(program: ONNXProgram, path: Path) -> bool | None:
        if path.suffix != ".onnxtxt":
            return None
        path.write_text(onnx.printer.to_text(program.model_proto))
        return True

    program = run(serialize=serialize)
    saved = program.save(tmp_path / "model.onnxtxt")
    assert saved.paths == (tmp_path / "model.onnxtxt",) and saved.bytes == saved.paths[0].stat().st_size
    assert onnx.parser.parse_model(saved.paths[0].read_text()).graph.node[0].op_type == "Relu"
    program.save(tmp_path / "model.onnx")
    assert onnx.load(tmp_path / "model.onnx").graph.node[0].op_type == "Relu"


def test_a_serialize_that_fails_or_lies(tmp_path: Path) -> None:
    def failing_writer(path: Path) -> bool:
        raise OSError("no space")

    with pytest.raises(SerializeError, match="hook serialize of the plugin .* called for .*model.x, failed: OSError: no space"):
        run(serialize=failing_writer).save(tmp_path / "model.x")
    with pytest.raises(SerializeError, match="returned True for .*, and there is no such file"):
        run(serialize=lambda: True).save(tmp_path / "model.x")


# Several at once


def test_hooks_of_a_module_and_of_an_instance_with_a_table() -> None:
    class Both:
        def __init__(self) -> None:
            self.symbolics = onnxexp.SymbolicTable("aten", override=True)
            self.symbolics.direct({"relu": "Abs"})

        @hookimpl
        def post_pass(self, options: Options) -> Any:
            return AbsForRelu()

    program = export(torch.nn.ReLU(), (X,), plugins=[Both()])
    assert [node.op_type for node in program.model.graph] == ["Abs"]
    assert program.plugins[0].hooks == ("post_pass",)
