"""The recorder makes a neutral graph of the operators that run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxexp._decompose.node_decomposer import Decomposer
from onnxexp._decompose.op_recorder import OpRecorder
from onnxexp._errors import CaptureError
from onnxexp._neutral_graph import Graph, Node, ScalarType, TensorType, Value


def text(size: Any) -> Any:
    return size if isinstance(size, int) else str(size.node.expr)


def lines(graph: Graph) -> list[str]:
    return [repr(node) for node in graph.nodes]


def recorded(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Graph:
    """Record the graph of a function of tensors of these shapes."""
    recorder, mode = OpRecorder(text), FakeTensorMode()
    with mode:
        tensors = [torch.empty(shape) for shape in shapes]
    for name, tensor in zip("abc", tensors, strict=False):
        recorder.bind_value(tensor, Value(name, TensorType(tensor.dtype, tuple(tensor.shape))))
    with torch.no_grad(), mode, recorder:
        result = function(*tensors)
    recorder.graph.outputs = recorder.value([result])
    return recorder.graph


# Without symbols


def test_each_operator_is_a_node_with_all_its_arguments() -> None:
    graph = recorded(lambda a, b: (a + b).sum(dim=1), (3, 4), (4,))
    assert lines(graph) == [
        "%add: float32[3, 4] = aten::add.Tensor(%a, %b, 1)",
        "%sum_1: float32[3] = aten::sum.dim_IntList(%add, [1], False, None)",
    ]
    assert graph.outputs == graph.nodes[1].outputs


def test_composites_are_written_as_what_they_call() -> None:
    graph = recorded(lambda a: torch.vstack([a, a]), (4,))
    assert [node.op for node in graph.nodes] == ["aten::unsqueeze", "aten::unsqueeze", "aten::cat"]


def test_names_are_unlike_each_other() -> None:
    graph = recorded(lambda a: a.neg().neg().abs().abs(), (2,))
    assert [node.outputs[0].name for node in graph.nodes] == ["neg", "neg_1", "abs_1", "abs_2"]


def test_results_in_lists_and_in_place() -> None:
    graph = recorded(lambda a: torch.unbind(a)[1].add_(1), (2, 3))
    first, second = graph.nodes
    assert [value.name for value in first.outputs] == ["unbind_0", "unbind_1"]
    assert second.op == "aten::add_.Tensor"
    assert second.args == [first.outputs[1], 1, 1]


def test_a_detached_tensor_is_the_same() -> None:
    graph = recorded(lambda a: a.detach(), (2,))
    assert not graph.nodes
    assert [output.name for output in graph.outputs] == ["a"]


def test_a_tensor_with_data_is_a_constant() -> None:
    graph = recorded(lambda a: a + torch.tensor([3.0, 4.0]), (2,))
    assert [tensor.tolist() for tensor in graph.params.values()] == [[3.0, 4.0]]
    assert [node.op for node in graph.nodes] == ["aten::lift_fresh_copy", "aten::add.Tensor"]


def test_the_device_is_one_that_has_data() -> None:
    """A tensor that is made without a device has no data either."""
    graph = recorded(lambda a: a + torch.zeros(2) + torch.ones(2, device=a.device) + torch.arange(2), (2,))
    devices = [arg for node in graph.nodes for arg in node.args if isinstance(arg, torch.device)]
    assert {device.type for device in devices} == {"cpu"}
    assert not graph.params


def test_data_that_is_asked_for_is_refused() -> None:
    with pytest.raises(RuntimeError):
        recorded(lambda a: a * float(a.sum().item()), (2,))
    with pytest.raises(RuntimeError):
        recorded(lambda a: a if a.any() else -a, (2,))


def test_a_tensor_of_which_nothing_is_known() -> None:
    with FakeTensorMode():
        stranger = torch.empty(2)
    with pytest.raises(CaptureError, match="no operator produced"):
        recorded(lambda a: a + stranger, (2,))


def test_without_a_kernel_for_meta_tensors_fake_ones_do() -> None:
    """The operator is nonzero, whose result has a data-dependent size."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    decomposer = Decomposer(lambda: mode, {}, lambda size: size if isinstance(size, int) else "dim_0")
    x = Value("x", TensorType(torch.float32, (4,)))
    graph = decomposer(Node("aten::argwhere", [x], [Value("out", TensorType(torch.int64, ("n", 1)))]))
    assert graph is not None
    assert "aten::nonzero" in [node.op for node in graph.nodes]


# Symbolic sizes


class Symbols:
    """Tensors whose sizes are expressions of two symbols, and their recorder."""

    def __init__(self) -> None:
        env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=env)
        sample = self.mode.from_tensor(torch.empty(5, 7), symbolic_context=None, static_shapes=False)
        self.rows, self.columns = sample.shape
        self.names = {str(size.node.expr): name for size, name in zip(sample.shape, ("rows", "columns"), strict=True)}
        self.recorder = OpRecorder(self.text)

    def text(self, size: Any) -> Any:
        written = str(size if isinstance(size, int) else size.node.expr)
        for symbol, name in self.names.items():
            written = written.replace(symbol, name)
        return int(written) if written.isdecimal() else written

    def run(self, function: Callable[..., Any], *shape: Any) -> Graph:
        """Record the graph of a function of one tensor of this shape."""
        with self.mode:
            tensor = torch.empty(shape)
        self.recorder.bind_value(tensor, Value("a", TensorType(torch.float32, tuple(map(self.text, shape)))))
        with torch.no_grad(), self.mode, self.recorder:
            result = function(tensor)
        self.recorder.graph.outputs = self.recorder.value([result])
        return self.recorder.graph


@pytest.fixture
def symbols() -> Symbols:
    return Symbols()


def test_the_size_of_an_axis(symbols: Symbols) -> None:
    graph = symbols.run(lambda a: a.new_zeros(a.shape[0], 2), symbols.rows, 4)
    assert lines(graph) == [
        "%sym_size: int(rows) = aten::sym_size.int(%a, 0)",
        "%new_zeros: float32[rows, 2] = aten::new_zeros(%a, [%sym_size, 2], None, None, None, False)",
    ]


def test_a_size_is_computed_once(symbols: Symbols) -> None:
    graph = symbols.run(lambda a: a.new_zeros(2 * a.shape[0] + 1) + a.new_ones(2 * a.shape[0] + 1), symbols.rows)
    assert [node.op for node in graph.nodes] == [
        *("aten::sym_size.int", "aten::mul.int", "aten::add.int"),
        *("aten::new_zeros", "aten::new_ones", "aten::add.Tensor"),
    ]
    product, total = graph.nodes[1:3]
    assert product.args == [graph.nodes[0].outputs[0], 2]
    assert total.args == [product.outputs[0], 1]
    assert total.outputs[0].type == ScalarType(int, "2*rows + 1")


def test_a_size_that_came_out_before(symbols: Symbols) -> None:
    """An axis of an operator's result identifies the size as well."""
    graph = symbols.run(lambda a: torch.cat([a, a]).new_zeros(2 * a.shape[0]), symbols.rows)
    assert [node.op for node in graph.nodes] == ["aten::cat", "aten::sym_size.int", "aten::new_zeros"]
    assert graph.nodes[1].args == [graph.nodes[0].outputs[0], 0]


def test_quotients(symbols: Symbols) -> None:
    graph = symbols.run(lambda a: a.new_zeros(a.shape[0] // 3, 100 // a.shape[0]) * (1 / a.shape[0]), symbols.rows)
    rows, below, above, _, part, _ = graph.nodes
    assert [(node.op, node.args[0].name, node.args[1]) for node in (rows, below)] == [
        ("aten::sym_size.int", "a", 0),
        ("aten::floordiv.int", "sym_size", 3),
    ]
    assert (above.op, above.args) == ("aten::floordiv.int", [100, rows.outputs[0]])
    assert (part.op, part.args, part.outputs[0].type) == ("aten::div.int", [1, rows.outputs[0]], ScalarType(float))


def test_sizes_that_are_known_as_a_whole(symbols: Symbols) -> None:
    """Neither factor of ``rows*columns`` is known by itself."""
    graph = symbols.run(lambda a: a.reshape(-1).new_zeros(a.shape[0] * 4 + 2), symbols.rows * symbols.columns, 4)
    assert lines(graph)[1:4] == [
        "%sym_size: int(rows*columns) = aten::sym_size.int(%a, 0)",
        "%mul: int = aten::mul.int(%sym_size, 4)",
        "%add: int(4*rows*columns + 2) = aten::add.int(%mul, 2)",
    ]


def test_a_size_from_elsewhere(symbols: Symbols) -> None:
    with pytest.raises(CaptureError, match="does not follow from the sizes"):
        symbols.run(lambda a: a.new_zeros(symbols.columns), symbols.rows)


def test_a_number_that_is_an_argument(symbols: Symbols) -> None:
    symbols.recorder.bind_value(symbols.columns, Value("n", ScalarType(int, "columns")))
    graph = symbols.run(lambda a: a.new_zeros(symbols.columns + 1), symbols.rows)
    assert lines(graph)[0] == "%add: int(columns + 1) = aten::add.int(%n, 1)"
