"""How a Function is lowered: classes, tables, names, options, threads, clean-up."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import onnx
import pytest
import torch

import onnxexp
import onnxexp_torch_onnx as onnx_exporter
from onnxexp.graph import Graph
from onnxexp_autograd import Autograd, plugin
from tests.autograd import functions as f

X = torch.randn(3, 4)
LOG_EXP = f.Holder(f.MyLogExp.apply)
RELU = f.Holder(f.MyRelu.apply)


def operators(model: Any, *plugins: Any, **options: Any) -> list[str]:
    program = onnxexp.export(model, (X.abs() + 2,), plugins=[*plugins, ...], **options)
    return [node.op_type for node in program.model.graph]


def neg(g: Any, x: Any) -> Any:
    return g.op("Neg", x)


def table(name: str = "MyLogExp") -> onnxexp.SymbolicTable:
    made = onnxexp.SymbolicTable("autograd")
    made(name)(lambda op, x: op.Abs(x))
    return made


def test_by_class() -> None:
    assert operators(LOG_EXP, Autograd({f.MyLogExp: neg})) == ["Neg"]
    assert operators(RELU, Autograd({f.MyRelu: neg})) == ["Neg"]  # before its own symbolic


def test_by_a_table() -> None:
    assert operators(LOG_EXP, table(), plugin) == ["Abs"]
    assert operators(RELU, table("MyRelu"), plugin) == ["Abs"]


def test_a_table_gets_all_arguments() -> None:
    seen: list[Any] = []
    made = onnxexp.SymbolicTable("autograd")

    @made("Scale")
    def scale(op, x, factor, how, dtype, axes, nothing, flag):
        seen.extend([factor, how, dtype, axes, nothing, flag])
        return op.Mul(x, factor)

    model = f.Holder(lambda x: f.Scale.apply(x, 2.0, "mul", torch.float32, [1, 2], None, True))
    assert operators(model, made, plugin) == ["Mul"]
    assert seen == [2.0, "mul", torch.float32, [1, 2], None, True]


def test_by_name() -> None:
    """The symbolic of prim::PythonOp gets the node as torch.jit.trace makes it."""
    seen: dict[str, Any] = {}

    def python_op(g, *args, **kwargs):
        node = g.original_node
        seen.update(kwargs, kind=node.kind(), pyname=node.pyname(), cconv=node.cconv(), constants=node.scalar_args())
        seen.update(function=node.pyobj().__self__, size=args[2].type().sizes(), arguments=len(args))
        return g.op("Neg", args[0]).setType(next(node.outputs()).type())

    model = f.Holder(lambda x: f.Plain.apply(x, 0.5, x.shape[0], "text", None))
    onnx_exporter.register_custom_op_symbolic("prim::PythonOp", python_op, 9)
    try:
        program = onnx_exporter.export(model, X, plugins=[plugin, ...], dynamic_shapes=(({0: "n"},),))
        assert [node.op_type for node in program.model.graph] == ["Neg"] and tuple(program.model.graph.outputs[0].shape)[1] == 4
        assert issubclass(seen.pop("function"), f.Plain)
        assert seen == {
            "name": "Plain", "module": "tests.autograd.functions", "inplace": 0, "kind": "prim::PythonOp", "pyname": "Plain",
            "cconv": "dcdcc", "constants": [0.5, "text", None], "size": [], "arguments": 5,
        }  # fmt: skip
        own = onnx_exporter.export(RELU, X, plugins=[plugin, ...])  # its own symbolic counts
        assert [node.op_type for node in own.model.graph] == ["Clip"]
    finally:
        onnx_exporter.unregister_custom_op_symbolic("prim::PythonOp", 9)


def test_without_any_of_it_the_forward_is_inlined() -> None:
    assert operators(LOG_EXP, plugin) == ["Exp", "Log", "Log"]


@pytest.mark.parametrize("how", ["plugin", "autograd_inlining"])
def test_kept_as_one_node(how: str) -> None:
    model = f.Holder(lambda x, y: f.Listed.apply([x, y], {"axis": 1}) + f.Plain.apply(x, 0.5, 3, "text", None).sum())
    if how == "plugin":
        program = onnxexp.export(model, (X, X), plugins=[Autograd(inline=False, domain="mine"), ...])
    else:
        program = onnx_exporter.export(model, (X, X), plugins=[plugin, ...], autograd_inlining=False)
    node = next(node for node in program.model.graph if node.op_type == "Plain")
    assert node.domain == ("mine" if how == "plugin" else "autograd") and len(node.inputs) == 1
    values = {name: attribute.value for name, attribute in node.attributes.items()}
    assert values == {"arg1": 0.5, "arg2": 3, "arg3": "text"}
    assert node.outputs[0].type is not None and tuple(node.outputs[0].shape) == (3, 4)


def test_a_function_defined_in_the_forward() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            class Local(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 2

                @staticmethod
                def symbolic(g, x):
                    return g.op("Add", x, x)

            return Local.apply(x)

    assert operators(Model(), plugin) == ["Add"]


def test_a_symbolic_that_is_inherited() -> None:
    class Child(f.MyRelu):
        pass

    assert operators(f.Holder(Child.apply), plugin) == ["Clip"]


def test_gradients_are_asked_for() -> None:
    x = X.clone().requires_grad_()
    program = onnxexp.export(RELU, (x,), plugins=[plugin, ...])
    assert [node.op_type for node in program.model.graph] == ["Clip"]
    RELU(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, (x > 0).float())


def test_training_mode() -> None:
    class Trained(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return f.MyRelu.apply(self.linear(x))

    assert operators(Trained(), plugin, training="training") == ["Gemm", "Clip"]


def test_the_users_line_is_told() -> None:
    program = onnxexp.export(RELU, (X,), plugins=[plugin, ...])
    (node,) = program.model.graph
    assert node.metadata_props["onnxexp.source"].startswith("functions.py:")
    assert program.lowered[0][1] == "inline Autograd"


def test_several_threads_at_once() -> None:
    """Each thread has its own choice, one thread has none, and none affects another."""
    found: dict[int, Any] = {}
    running = threading.Event()

    def run(number: int) -> None:
        for _ in range(3):
            chosen = [Autograd({f.MyLogExp: neg})] if number % 2 else [plugin]
            found[number] = operators(LOG_EXP, *chosen)

    def eager() -> None:
        while not running.is_set():
            found[-1] = type(f.MyRelu.apply(X.clone().requires_grad_()).grad_fn).__name__

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    watcher = threading.Thread(target=eager)
    watcher.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    running.set()
    watcher.join()
    assert {number: found[number] for number in range(4)} == {
        0: ["Exp", "Log", "Log"], 1: ["Neg"], 2: ["Exp", "Log", "Log"], 3: ["Neg"],
    }  # fmt: skip
    assert found[-1] == "MyReluBackward"


def test_nothing_is_left_behind() -> None:
    from torch._dynamo import trace_rules

    before = dict(vars(type(torch.autograd.Function))), dict(vars(torch.autograd.function))
    allowed = set(trace_rules._allowed_callable_ids.function_ids)
    with pytest.raises(onnxexp.OnnxExporterError):
        operators(f.Holder(lambda x: f.MyRelu.apply(x, x)), plugin)
    operators(RELU, plugin)
    assert (dict(vars(type(torch.autograd.Function))), dict(vars(torch.autograd.function))) == before
    assert set(trace_rules._allowed_callable_ids.function_ids) == allowed


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_an_export_leaves_no_class_and_no_constant(capture: str) -> None:
    class Constant:
        """An argument that is neither a tensor nor a number."""

    def leave() -> list[weakref.ref[Any]]:
        class Short(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, constant):
                return x * 2

            @staticmethod
            def symbolic(g, x, constant):
                return g.op("Add", x, x)

        constant = Constant()
        assert operators(f.Holder(lambda x: Short.apply(x, constant)), plugin, capture=capture) == ["Add"]
        return [weakref.ref(Short), weakref.ref(constant)]

    left = leave()
    torch._dynamo.reset()
    gc.collect()
    assert [each() for each in left] == [None, None]


def test_an_operator_runs_only_in_its_export() -> None:
    class Alone(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def symbolic(g, x):
            return g.op("Add", x, x)

    operators(f.Holder(Alone.apply), plugin)
    (name,) = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("autograd::Alone_"))
    with pytest.raises(RuntimeError, match="autograd::Alone_0_.* runs only while the model is captured"):
        getattr(torch.ops.autograd, name.partition("::")[2])(X)


def test_a_class_made_in_a_forward_lives_until_it_is_lowered() -> None:
    class Collects:
        @onnxexp.hookimpl
        def pre_pass(self, options: onnxexp.Options) -> Any:
            def collect(graph: Graph) -> None:
                gc.collect()

            return collect

    def forward(x: torch.Tensor) -> Any:
        class Passing(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def symbolic(g, x):
                return g.op("Add", x, x)

        return Passing.apply(x)

    assert operators(f.Holder(forward), Collects(), plugin) == ["Add"]


def test_exports_share_the_operators_of_torch() -> None:
    """torch cannot remove an operator; a second export must not define another."""

    def defined() -> list[str]:
        return [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("autograd::")]

    def make(factor: int) -> Any:
        class Shared(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * factor

            @staticmethod
            def symbolic(g, x):
                return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(float(factor))))

        return Shared

    before = set(defined())
    for factor in (2, 3):
        shared = make(factor)
        program = onnxexp.export(f.Holder(lambda x, one=shared: one.apply(one.apply(x))), (X,), plugins=[plugin, ...])
        torch.testing.assert_close(program(X), X * factor**2)
    (name,) = set(defined()) - before
    assert name.startswith("autograd::Shared_0_")


def test_two_classes_of_one_name() -> None:
    def make(op: str) -> Any:
        class Twin(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def symbolic(g, x):
                return g.op(op, x)

        return Twin

    one, two = make("Neg"), make("Abs")
    assert operators(f.Holder(lambda x: two.apply(one.apply(x))), plugin) == ["Neg", "Abs"]


def test_forward_with_numpy() -> None:
    """A forward that fake tensors cannot run is run on real ones, to learn its shapes."""
    program = onnxexp.export(f.Holder(f.Numpy.apply), (X,), plugins=[plugin, ...], dynamic_shapes=(({0: "n"},),))
    assert [node.op_type for node in program.model.graph] == ["Sin"]
    torch.testing.assert_close(program(torch.ones(7, 4)), torch.ones(7, 4).sin())


def test_forward_that_looks_at_values() -> None:
    program = onnxexp.export(f.Holder(f.Looks.apply), (X,), plugins=[plugin, ...], dynamic_shapes=(({0: "n"},),))
    assert [node.op_type for node in program.model.graph] == ["Abs"]


def test_vmap_inside_is_left_alone() -> None:
    class Mapped(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def symbolic(g, x):
            return g.op("Neg", x)

    program = onnxexp.export(f.Holder(torch.vmap(Mapped.apply)), (X,), plugins=[plugin, ...])
    torch.testing.assert_close(program(X), X * 2)


FUNCTIONS = Autograd(functions=True)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_as_functions_of_the_model(capture: str) -> None:
    model = f.Holder(lambda x: f.MyLogExp.apply(x.abs() + 1) + f.MyLogExp.apply(x.abs() + 2) + f.MyRelu.apply(x))
    program = onnxexp.export(
        model, (X,), plugins=[FUNCTIONS, ...], dynamic_shapes=(({0: "n"},),), capture=capture, opset_version=18
    )
    calls = [node for node in program.model.graph if node.domain == "autograd"]
    assert [node.op_type for node in calls] == ["MyLogExp", "MyLogExp"]
    ((_, name, _), function), *others = program.model.functions.items()
    assert name == "MyLogExp" and [node.op_type for node in function] == ["Exp", "Log", "Log"] and not others
    assert any(node.op_type == "Clip" for node in program.model.graph)  # one with a symbolic is what that says
    onnx.checker.check_model(program.model_proto, full_check=True)
    for x in (X, torch.randn(7, 4)):
        torch.testing.assert_close(program(x), model(x), atol=1e-5, rtol=1e-5)


def test_functions_inside_of_functions_and_constants() -> None:
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return (x * factor).exp(), x.sum(1)

    class Holding(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensors, factor):
            values, sums = Inner.apply(tensors[0], factor)
            return values.tanh() + tensors[1], sums, None

    model = f.Holder(lambda x, y: Holding.apply([x, y], 0.5)[:2])
    program = onnxexp.export(model, (X, X), plugins=[FUNCTIONS, ...])
    assert [node.op_type for node in program.model.graph] == ["Holding"]
    assert {name for _, name, _ in program.model.functions} == {"Inner", "Holding"}
    torch.testing.assert_close(program(X, X * 2), model(X, X * 2))


def test_functions_of_the_model_at_an_opset_without_them() -> None:
    with pytest.warns(UserWarning, match="from opset 15 on"):
        assert operators(LOG_EXP, FUNCTIONS, opset_version=13) == ["Exp", "Log", "Log"]
