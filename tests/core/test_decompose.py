"""Nodes that no plugin lowers, decomposed until lowered operators are left."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxexp import Builder, SymbolicTable, Tensor, UnsupportedOperators
from onnxexp._decompose import node_decomposer as decompose
from onnxexp._decompose.node_decomposer import Decomposer
from onnxexp._neutral_graph import Graph, Node, ScalarType, TensorType, Value
from onnxexp._request.dynamic_shapes import read_dynamic
from onnxexp._request.export_context import ExportContext
from onnxexp._request.options import Options
from onnxexp._torch_export import frontend
from tests.core.tiny import export

torch.manual_seed(0)
X = torch.randn(3, 4)
FLOATS = TensorType(torch.float32, (3, 4))


class Function(nn.Module):
    def __init__(self, fn: Any) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: torch.Tensor) -> Any:
        return self.fn(x)


def value(name: str, *sizes: int | str, dtype: torch.dtype = torch.float32) -> Value:
    return Value(name, TensorType(dtype, sizes))


def decomposer(sizes: dict[str, Any] | None = None) -> Decomposer:
    """Build a decomposer whose only symbolic sizes are these."""
    mode = FakeTensorMode()
    return Decomposer(lambda: mode, sizes or {}, lambda size: int(size))


def operators(graph: Graph | None) -> list[str]:
    assert graph is not None
    return [node.op for node in graph.nodes]


# Down to what is claimed

COMPUTED = {
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=2),
    "huber_loss": lambda x: F.huber_loss(x, x * 0.5),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x * 0.5, reduction="none"),
    "mse_loss": lambda x: F.mse_loss(x, x * 0.5),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
    "silu": lambda x: F.silu(x),
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "glu": lambda x: F.glu(x),
    "rsub": lambda x: torch.rsub(x, 1),
    "sinc": lambda x: torch.sinc(x),
    "square": lambda x: torch.square(x),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.1])),
    "pairwise_distance": lambda x: F.pairwise_distance(x, x * 2),
    "dist": lambda x: torch.dist(x, x * 2),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computed_from_simpler_operators(name: str) -> None:
    """Static, then with a dynamic axis at sizes that were not seen."""
    fn = COMPUTED[name]
    torch.testing.assert_close(export(Function(fn), (X,))(X), fn(X))
    program = export(Function(fn), (X,), dynamic_shapes={"x": {0: "batch"}})
    for rows in (3, 5, 2):
        sample = torch.randn(rows, 4)
        torch.testing.assert_close(program(sample), fn(sample))


def test_claimed_operators_stay_whole() -> None:
    program = export(Function(lambda x: torch.addcmul(x, x, x).relu()), (X,))
    assert collections.Counter(node.op_type for node in program.model.graph) == {"Mul": 2, "Add": 1, "Relu": 1}


def test_what_is_claimed_later_ends_it_earlier() -> None:
    """The deeper of two levels is not looked at where the upper one is claimed."""
    mine = SymbolicTable("aten")

    @mine("silu")
    def silu(op: Builder, self: Tensor) -> Tensor:
        """silu(Tensor self) -> Tensor"""
        return op.Mul(self, op.Sigmoid(self))

    program = export(Function(lambda x: F.glu(F.silu(x))), (X,), plugins=[mine])
    assert [node.metadata_props["onnxexp.op"] for node in program.model.graph][:2] == ["aten::silu", "aten::silu"]


# What a decomposition is


def test_inputs_stand_for_the_values_in_order() -> None:
    x, y = value("x", 3, 4), value("y", 3, 4)
    graph = decomposer()(Node("aten::addcmul", [x, y, x, 2], [value("out", 3, 4)]))
    assert graph is not None
    assert [given.name for given in graph.inputs] == ["x", "y", "x"]
    assert [given.type for given in graph.inputs] == [FLOATS] * 3
    assert set(operators(graph)) == {
        "aten::mul.Tensor",
        "aten::mul.Scalar",
        "aten::add.Tensor",
    } or "aten::add.Tensor" in operators(graph)
    assert [output.type for output in graph.outputs] == [FLOATS]


def test_equal_calls_are_decomposed_once() -> None:
    known = decomposer()
    one, other = (Node("aten::silu", [value(name, 3, 4)], [value("out", 3, 4)]) for name in ("a", "b"))
    assert known(one) is known(other)
    assert known(Node("aten::silu", [value("c", 3, 5)], [value("out", 3, 5)])) is not known(one)
    assert known(
        Node("aten::silu", [value("d", 3, 4, dtype=torch.float64)], [value("out", 3, 4, dtype=torch.float64)])
    ) is not known(one)
    two, three = (Node("aten::addcmul", [value("a", 3, 4)] * 3 + [alpha], [value("out", 3, 4)]) for alpha in (2, 3))
    assert known(two) is not known(three)


def test_lists_and_keywords() -> None:
    parts = [value("a", 2, 4), value("b", 3, 4)]
    graph = decomposer()(Node("aten::vstack", [parts], [value("out", 5, 4)]))
    assert operators(graph)[-1] == "aten::cat"
    graph = decomposer()(Node("aten::rsub.Scalar", [value("a", 2, 4), 1, 3], [value("out", 2, 4)]))
    assert "aten::sub.Tensor" in operators(graph)


@pytest.mark.parametrize("op", ["aten::add.int", "prim::If", "mine::unknown", "aten::bessel", "aten::unique_consecutive"])
def test_what_torch_does_not_decompose(op: str) -> None:
    assert decomposer()(Node(op, [value("a", 3)], [value("out", 3)])) is None


def test_without_types_nothing_is_decomposed() -> None:
    known = decomposer()
    assert known(Node("aten::silu", [Value("a", TensorType(torch.float32, None))], [value("out", 3)])) is None
    assert known(Node("aten::silu", [Value("a", TensorType(None, (3,)))], [value("out", 3)])) is None
    assert known(Node("aten::silu", [value("a", "batch")], [value("out", "batch")])) is None, "a size that nobody knows"
    assert known(Node("aten::mul.Scalar", [value("a", 3), Value("n", ScalarType(int, "n"))], [value("out", 3)])) is None


def test_a_call_that_torch_refuses_has_no_decomposition(capfd: pytest.CaptureFixture[str]) -> None:
    wrong = Node("aten::bilinear", [value("a", 3, 4), value("b", 2, 5), value("w", 2, 4, 4), None], [value("out", 3, 2)])
    assert decomposer()(wrong) is None
    assert capfd.readouterr() == ("", ""), "nor does torch's log tell of it"


def test_writes_inside_are_functional() -> None:
    graph = decomposer()(Node("aten::lstm_cell", CELL, [value("h", 3, 4), value("c", 3, 4)]))
    assert not [op for op in operators(graph) if op.partition(".")[0].endswith("_")]
    assert len(graph.outputs) == 2  # type: ignore[union-attr]


# Dynamic sizes

CELL: list[Any] = [value("x", 3, 4), [value("h", 3, 4), value("c", 3, 4)], value("w", 16, 4), value("r", 16, 4), None, None]


def dynamic(fn: Any, *args: torch.Tensor) -> Any:
    """Capture a function, with the first axis of every input called ``batch``."""
    model = Function(fn) if len(args) == 1 else fn
    spec = read_dynamic(model.forward, args, {}, dynamic_shapes=[{0: "batch"} for _ in args])
    return frontend.capture(model, args, {}, spec, Options(20), ExportContext(Options(20)))


def test_symbolic_sizes_stay() -> None:
    captured = dynamic(lambda x: F.pairwise_distance(torch.cat([x, x]), torch.cat([x, x]) * 2), X)
    (node,) = (node for node in captured.graph.nodes if node.op == "aten::pairwise_distance")
    graph = captured.decompose(node)
    assert [given.type.sizes for given in graph.inputs] == [("2*batch", 4)] * 2
    assert [output.type.sizes for output in graph.outputs] == [("2*batch",)]


@pytest.fixture
def asks_for_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace torch's decomposition of mish by one that needs the sizes as numbers."""
    original = decompose._decompositions

    def decompositions(op: Any) -> Any:
        return [lambda x: x * int(x.shape[0])] if op is torch.ops.aten.mish.default else original(op)

    monkeypatch.setattr(decompose, "_decompositions", decompositions)


@pytest.mark.usefixtures("asks_for_numbers")
def test_baked_in_sizes_are_refused_and_forgotten() -> None:
    """Nothing else of this export may take the sizes for those numbers."""
    captured = dynamic(lambda x: F.mish(x), X)
    (node,) = captured.graph.nodes
    assert node.op == "aten::mish"
    assert captured.decompose(node) is None
    x = captured.graph.inputs[0]
    assert x.type.sizes == ("batch", 4)
    graph = captured.decompose(Node("aten::silu", [x], [Value("out", x.type)]))
    assert [output.type.sizes for output in graph.outputs] == [("batch", 4)]


@pytest.mark.usefixtures("asks_for_numbers")
def test_guards_of_a_refused_decomposition_are_undone() -> None:
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    with mode:
        sample = mode.from_tensor(X, symbolic_context=None, static_shapes=False)
    size = sample.shape[0]
    sizes = {"batch": size}
    known = Decomposer(lambda: mode, sizes, lambda size: "batch" if isinstance(size, torch.SymInt) else size)
    before = str(size), len(env.guards), dict(env.replacements)
    assert known(Node("aten::mish", [value("x", "batch", 4)], [value("y", "batch", 4)])) is None
    assert (str(size), len(env.guards), dict(env.replacements)) == before


@pytest.mark.parametrize("told", [True, False])
def test_what_remains_of_the_examples_size_decides_nothing(told: bool) -> None:
    """The remainder of the example's size does not become the size of a part."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    with mode:
        batch = mode.from_tensor(X, symbolic_context=None, static_shapes=False).shape[0]
        unknown = env.create_unbacked_symint()
    sizes = {"batch": batch, "unknown": unknown}
    known = Decomposer(lambda: mode, sizes, lambda size: str(size) if isinstance(size, torch.SymInt) else size)
    parts = [value(name, "batch" if told else "unknown", 4) for name in ("first", "second")]
    found = known(Node("aten::tensor_split.sections", [value("x", "batch", 4), 2, 0], parts))
    assert (found is not None) == told


def test_a_decomposition_takes_symbolic_sizes() -> None:
    """Its steps are torch's Python kernels; the C++ ones take numbers only."""
    captured = dynamic(lambda x: torch.fft.fft(x, n=9, dim=0), X)
    (node,) = (node for node in captured.graph.nodes if node.op == "aten::fft_fft")
    assert "aten::constant_pad_nd" in operators(captured.decompose(node))


# What is told


class Block(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(x)  # the line of mish


def test_a_missing_leaf_is_told_of_the_users_own_operator() -> None:
    with pytest.raises(UnsupportedOperators) as raised:
        export(nn.Sequential(Block()), (X,))
    assert raised.value.counts == {"aten::mish": 1}
    message = str(raised.value)
    assert "aten::mish (1x)" in message
    assert "(aten::softplus: no plugin lowers it)" in message
    assert "test_decompose.py" in message
    assert "in 0 (Block): return F.mish(x)  # the line of mish" in message


def test_decomposing_ends() -> None:
    """An operator that torch decomposes into itself is not decomposed endlessly."""
    mine = SymbolicTable("aten")

    @mine("silu")
    def silu(op: Builder, self: Tensor) -> Tensor:
        """silu(Tensor self) -> Tensor"""
        op.decline("not today")

    program = export(Function(F.silu), (X,), plugins=[mine])
    torch.testing.assert_close(program(X), F.silu(X))
    with pytest.raises(UnsupportedOperators, match="aten::convolution"):
        export(nn.Conv1d(4, 2, 1), (torch.randn(2, 4, 3),))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_callers_mode_makes_no_difference(mode: Any) -> None:
    model = Function(COMPUTED["huber_loss"])
    expected = export(model, (X,)).model_proto.SerializeToString()
    with mode():
        assert export(model, (X,)).model_proto.SerializeToString() == expected
