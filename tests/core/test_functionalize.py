"""Functionalized graphs against eager, over the ways in which models write to memory."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from onnxexp.errors import CaptureError
from onnxexp.graph import Graph, Node, TensorType, Value, Where
from onnxexp.passes.functionalize import Report, functionalize
from onnxexp.passes.functionalize.facts import facts
from tests.core.interpreter import capture, check_types, run

Fn = Callable[..., Any]
CASES: dict[str, tuple[Fn, tuple[Any, ...]]] = {}


def x34() -> Tensor:
    return torch.arange(12.0).reshape(3, 4) - 5


def x234() -> Tensor:
    return torch.arange(24.0).reshape(2, 3, 4) - 11


def case(*inputs: Any) -> Callable[[Fn], Fn]:
    def note(function: Fn) -> Fn:
        assert function.__name__ not in CASES
        CASES[function.__name__] = function, inputs or (x34(),)
        return function

    return note


@case(x34(), torch.ones(4))
def set_row(x, y):
    z = x.clone()
    z[1] = y
    return z


@case()
def set_number(x):
    z = x * 1
    z[:, 1] = 3
    z[-1] = 7.5
    return z


@case()
def augmented_slice(x):
    z = x * 1
    z[:, 1:3] += 1
    return z, z[:, 2]


@case()
def mask_set(x):
    z = x * 1
    z[z > 2] = 5
    return z


@case()
def transposed(x):
    z = x * 1
    z.t().mul_(2)
    return z


@case()
def flat_tail(x):
    z = x * 1
    z.view(-1)[1:].add_(10)
    return z


@case()
def copy_into(x):
    z = torch.zeros(3, 4)
    z.copy_(x)
    return z + 1


@case(torch.arange(4))
def copy_broadcast_and_cast(x):
    z = torch.zeros(3, 4)
    z.copy_(x)
    z[0].copy_(x * 2)
    return z


@case()
def clamp_select(x):
    z = x * 1
    z[0].clamp_(min=-2, max=1)
    return z


@case(x34(), torch.tensor([0, 2, 0]), torch.ones(3, 4))
def index_put_accumulate(x, i, v):
    z = x * 1
    z.index_put_((i,), v, accumulate=True)
    z[i, 1] = 9.0
    return z


@case(x234())
def nested_views(x):
    z = x * 1
    z[1].transpose(0, 1)[1:3].unsqueeze(0)[:, :, 1] -= 4
    return z


@case()
def two_views(x):
    z = x * 1
    a, b = z[0], z[:, 0]
    a.add_(1)
    b.mul_(3)
    a.sub_(0.5)
    return z, a, b


@case()
def overlapping_read(x):
    z = x * 1
    a, b = z[:, :3], z[:, 1:]
    a.add_(100)
    c = b * 2
    b.neg_()
    return a, b, c, z


@case()
def input_returned(x):
    x.mul_(2)
    return x


@case()
def input_view_returned(x):
    y = x[1:]
    x.add_(1)
    return y


@case()
def input_and_result(x):
    y = x.add_(1)
    x.mul_(2)
    return y, x + y


@case()
def view_after_write(x):
    z = x * 1
    z.add_(1)
    return z.t(), z.view(2, 6), z[2]


@case(x234())
def split_pieces(x):
    z = x * 1
    a, b = z.split([1, 3], dim=2)
    a.fill_(7)
    b[0] += 1
    return z, a, b


@case(x234())
def chunk_pieces(x):
    z = x * 1
    a, b = z.chunk(2, dim=-1)
    b.mul_(a)
    a.zero_()
    return z, b


@case(x234())
def unbind_pieces(x):
    z = x * 1
    pieces = z.unbind(1)
    pieces[1].add_(pieces[0])
    pieces[2].copy_(pieces[1])
    return z, z[:, 1]


@case(x234())
def tensor_split_pieces(x):
    z = x * 1
    for index, piece in enumerate(z.tensor_split(3, dim=2)):
        piece.add_(index)
    return z


@case()
def split_with_size(x):
    z = x * 1
    first, second = z.split(2)
    first[0], second[0] = second[0].clone(), first[0].clone()
    return z


@case(x34(), torch.tensor([True, False, True, False]))
def masked_fill(x, mask):
    z = x * 1
    z.masked_fill_(mask, -1e4)
    z[0].masked_fill_(~mask, 3)
    return z


@case()
def zero(x):
    z = x * 1
    y = z[1]
    y.zero_()
    return z, y


@case()
def fill(x):
    z = x * 1
    z[:, 3].fill_(2)
    z[0].fill_(z[1, 2])
    return z


@case(torch.ones(4))
def fill_expanded(x):
    z = (x * 1).unsqueeze(0)
    z.expand(3, 4).fill_(5)
    z.expand(2, 3, 4).zero_()
    return z


@case()
def expanded_then_read(x):
    z = x[:1] * 1
    wide = z.expand(3, 4)
    z.add_(1)
    return wide + x


@case(torch.arange(6, dtype=torch.int32), torch.arange(6))
def narrow_integers(x, y):
    z = x.clone()
    z += y
    z.cumsum_(0)
    return z


@case(torch.ones(3, dtype=torch.float16), torch.full((3,), 1 / 3))
def half_plus_float(x, y):
    z = x * 1
    z.add_(y)
    z[1:].mul_(y[1:])
    return z


@case()
def compare_in_place(x):
    z = x * 1
    z.gt_(0)
    w = x.clone().logical_not_()
    return z, w


@case()
def inplace_relus(x):
    y = nn.ReLU(inplace=True)(x * 2)
    return nn.functional.leaky_relu_(nn.functional.hardtanh_(y + x, -3, 3), 0.1)


@case(x234())
def squeeze_and_unsqueeze(x):
    z = x[:, :1] * 1
    z.squeeze(1).add_(1)
    z.squeeze().mul_(2)
    z.unsqueeze(-1)[0] = 3
    return z


@case(x234())
def permuted_slices(x):
    z = x * 1
    z.permute(2, 0, 1)[1].sub_(100)
    z.movedim(0, -1)[0, 0, 0] = 5
    z.transpose(-1, -2)[:, 2:, 0] *= 2
    z.mT[1] += 1
    return z


@case()
def narrowed(x):
    z = x * 1
    z.narrow(1, 1, 2).add_(1)
    z.narrow(0, -2, 1).mul_(3)
    return z


@case()
def strided_slice(x):
    z = x * 1
    z[::2, 1::2] = 0
    return z


@case()
def diagonals(x):
    z = x * 1
    z.diagonal().fill_(0)
    z.diagonal(1).add_(5)
    z.diagonal(-1, 1, 0).neg_()
    return z


@case(x234())
def reshaped(x):
    z = x * 1
    z.reshape(6, 4)[5] = 1
    z.flatten(1)[:, 0] += 9
    z.flatten()[3:5].zero_()
    z.unflatten(2, (2, 2))[..., 1].mul_(-1)
    return z


@case()
def reshape_copies(x):
    y = x.t().reshape(-1)
    y.add_(1)
    return y


@case(x234())
def ones_reshaped(x):
    y = (x * 1).transpose(0, 1)
    y.reshape(3, 1, 2, 4)[1] = 0
    return y


@case()
def to_itself(x):
    z = x * 1
    z.to(torch.float32)[0] = 1
    z.to(torch.float64)[1] = 1
    z.contiguous()[2] = 2
    z.detach().add_(1)
    z.type_as(x).mul_(2)
    return z


@case()
def dropped_out(x):
    z = x * 1
    nn.functional.dropout(z, 0.5, training=False).add_(1)
    return z


@case()
def out_arguments(x):
    z = torch.empty(3, 4)
    torch.add(x, x, out=z)
    torch.mul(x[0], 2, out=z[1])
    values, indices = torch.empty(3), torch.empty(3, dtype=torch.int64)
    torch.max(x, 1, out=(values, indices))
    return z, values, indices


@case()
def out_resized(x):
    z = torch.empty(0)
    torch.matmul(x, x.t(), out=z)
    return z + 1


@case()
def reshaping_in_place(x):
    z = x * 1
    y = z[0]
    z.t_()
    z[1] = 100
    z.unsqueeze_(0)
    z.squeeze_(0).transpose_(0, 1)
    return z, y


@case(x34(), torch.tensor([1, 0]))
def index_family(x, i):
    z = x * 1
    z.index_add_(0, i, x[:2])
    z.index_copy_(1, i, x[:, 2:])
    z.index_fill_(0, i[:1], -1)
    z[1:].scatter_(1, i.unsqueeze(1), 8.0)
    z.scatter_add_(0, i.expand(4, 2).t(), x[:2])
    return z


@case()
def swap(x):
    z = x * 1
    first = z[0].clone()
    z[0] = z[1]
    z[1] = first
    return z


@case()
def self_copy(x):
    z = x * 1
    z[1:] = z[1:]
    z.copy_(z)
    return z


@case()
def stacked_reads(x):
    z = x * 1
    parts = []
    for index in range(3):
        z[index] += index
        parts.append(z.sum(0))
    return torch.stack(parts), torch.cat([z, z[1:]])


@case()
def list_of_tensors(x):
    a, b = x * 1, x * 2
    torch._foreach_add_([a, b], 1.0)
    torch._foreach_mul_([a[0], b], [b[0], a])
    return a, b


@case(torch.randn(3, 2, dtype=torch.complex64))
def complex_parts(x):
    z = x * 1
    z.real.add_(1)
    z.imag[0] = 4
    torch.view_as_real(z)[1, :, 0] = 9
    return torch.view_as_real(z)


@case()
def item_assignment(x):
    z = x * 1
    z[0, 0] = 1
    z[1][2] = 2
    z[..., -1] = 3
    z[None, 2] = 4
    return z


@case()
def clone_is_new(x):
    z = x * 1
    y = z.clone()
    z.add_(1)
    y[0] = 0
    return z, y


@case()
def exotic_functions(x):
    z = x * 1
    z.clamp_(-3, 3).pow_(2).add_(1).sqrt_().addcmul_(x, x, value=0.5).addcdiv_(x, z + 10)
    z.tril_()
    z.lerp_(x, 0.25)
    z.where(x > 0, x)
    return torch.where(z > 0, z, x)


@case(x34())
def attention_mask(x):
    mask = torch.full((3, 4), float("-inf"))
    mask.triu_(diagonal=1)
    mask[:, 0].masked_fill_(x[:, 0] > 0, -1)
    return mask + x


@case(x234())
def views_of_a_view(x):
    z = x * 1
    y = z.view(6, 4)
    a, b = y[1:], y[:, 1:3]
    a[0].add_(1)
    y.mul_(2)
    b[3].sub_(1)
    return a, b, y, z


@case()
def flipped_and_rolled(x):
    z = x * 1
    z.flip(0)[0] = 9
    z.roll(1)[0].add_(1)
    z[1] = z[0].flip(0)
    return z


@case()
def random_shapes(x):
    z = torch.zeros_like(x)
    z[1:].uniform_(2, 2)
    z[:, 0].bernoulli_(1.0)
    return z + nn.functional.dropout(x, 0.5, False).mul_(2)


class Lambda(nn.Module):
    def __init__(self, function: Fn) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def check(model: nn.Module, *runs: tuple[Any, ...], dynamic: Any = None) -> tuple[Graph, Report]:
    """Capture with the first inputs, functionalize, and compare with eager on all of them; returns the graph and the report."""
    model.eval()
    graph = capture(copy.deepcopy(model), copy.deepcopy(runs[0]), dynamic)
    report = functionalize(graph)
    assert [node for node in graph.walk() if facts(node.op).written] == []
    for inputs in runs:
        expected = pytree.tree_leaves(copy.deepcopy(model)(*copy.deepcopy(inputs)))
        given = copy.deepcopy(inputs)
        torch.testing.assert_close(run(graph, given), expected, rtol=0, atol=0)
        torch.testing.assert_close(given, inputs, rtol=0, atol=0)
        check_types(graph, given)
    return graph, report


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_eager(name: str) -> None:
    function, inputs = CASES[name]
    check(Lambda(function), inputs)


BATCH = torch.export.Dim.DYNAMIC
DYNAMIC: dict[str, Fn] = {
    "slice": CASES["augmented_slice"][0],
    "flat": CASES["flat_tail"][0],
    "reshape": CASES["reshape_copies"][0],
    "transposed": CASES["transposed"][0],
    "fill": CASES["fill"][0],
    "mask": CASES["mask_set"][0],
    "compare": CASES["compare_in_place"][0],
    "copy": lambda x: torch.zeros(x.shape[0], 4).copy_(x[:1]) + torch.zeros_like(x).copy_(x),
    "rows": lambda x: (x * 1).view(-1, 2, 2)[1:].mul_(2).flatten(),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_unknown_sizes(name: str) -> None:
    other = torch.cat([x34(), x34() + 50])
    check(Lambda(DYNAMIC[name]), (x34(),), (other,), dynamic=(({0: BATCH},),))


def both_dynamic(x):
    z = x * 1
    z.view(-1)[1:].add_(1)
    z.flatten()[:2].zero_()
    a, b = z.chunk(2, dim=0)
    b += 1
    a.t().neg_()
    z[x.shape[0] // 2 :, : x.shape[1] - 1].mul_(3)
    return z, a


def test_two_unknown_sizes() -> None:
    check(Lambda(both_dynamic), (torch.ones(4, 6),), (torch.ones(8, 3),), dynamic=(({0: BATCH, 1: BATCH},),))


def test_unknown_number() -> None:
    def function(x, n):
        z = x * 1
        z[n:] += 1
        z.narrow(0, n, 2).mul_(2)
        return z

    check(Lambda(function), (x34(), 1), (torch.ones(9, 4), 5), dynamic=(({0: BATCH}, BATCH),))


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("unused", torch.zeros(3))

    def forward(self, x: Tensor, y: Tensor) -> Any:
        y.mul_(2)
        self.seen[1:] += 1
        return x + self.seen, y, self.seen


def test_reports_written_inputs_and_buffers() -> None:
    _, report = check(Counting(), (torch.ones(3), torch.ones(3)))
    assert (report.inputs, report.params) == (("y",), ("seen",))
    assert report.rewritten == 3


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(6.0).reshape(2, 3))
        self.register_buffer("same", self.table)
        self.register_buffer("row", self.table[0])

    def forward(self, x: Tensor, row: bool) -> Any:
        self.table.add_(x)
        return self.same + (self.row if row else 0)


def test_parameters_that_share_memory() -> None:
    check(Shared(), (torch.ones(3), False))
    with pytest.raises(CaptureError, match="whether the two share memory is not certain"):
        check(Shared(), (torch.ones(3), True))


def test_a_graph_without_writes_is_left_alone() -> None:
    graph = capture(Lambda(lambda x: (x + 1).view(-1)[2:]), (x34(),))
    before = list(graph.nodes)
    assert functionalize(graph) == Report()
    assert graph.nodes == before


def test_a_write_that_ends_in_a_copy_to_itself_scatters_once() -> None:
    graph, _ = check(Lambda(CASES["augmented_slice"][0]), (x34(),))
    assert sum("scatter" in node.op for node in graph.nodes) == 1


def test_relus_add_nothing() -> None:
    layers = [module for _ in range(3) for module in (nn.Conv2d(3, 3, 1), nn.ReLU(inplace=True))]
    graph, _ = check(nn.Sequential(*layers), (torch.randn(1, 3, 2, 2),))
    assert [node.op for node in graph.nodes] == ["aten::conv2d", "aten::relu"] * 3


def test_where_stays() -> None:
    graph = capture(Lambda(CASES["set_number"][0]), (x34(),))
    lines = {node.where.line for node in graph.nodes if facts(node.op).written}
    functionalize(graph)
    assert {node.where.line for node in graph.nodes if "scatter" in node.op} == lines
    assert all(node.where.line for node in graph.nodes)


REFUSED: dict[str, tuple[Fn, str]] = {
    "as_strided": (lambda x: ((z := x * 1).as_strided((2,), (1,)).add_(1), z), r"aten::add_.Tensor at File .*cure: clone\(\)"),
    "maybe a view": (lambda x: ((z := x.t() * 1).reshape(-1).add_(1), z), r"%mul is read after aten::add_.Tensor"),
    "set_": (lambda x: (x * 1).set_(x), r"aten::set_.* writes to its arguments"),
    "unfold": (lambda x: ((z := x * 1).unfold(0, 2, 1).fill_(1), z), r"aten::unfold, which cannot be undone"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_it_cannot_follow(name: str) -> None:
    function, message = REFUSED[name]
    graph = capture(Lambda(function), (x34(),))
    with pytest.raises(CaptureError, match=message):
        functionalize(graph)


def test_custom_operators() -> None:
    with torch.library._scoped_library("onnxexp_functionalize", "FRAGMENT") as library:
        library.define("twice_(Tensor(a!) x) -> Tensor(a!)")
        library.define("twice(Tensor x) -> Tensor")
        library.define("lonely(Tensor(a!) x, float y) -> ()")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        x, y, z = (Value(name, TensorType(torch.float32, (3,))) for name in "xyz")
        graph = Graph([x], [x], [Node("onnxexp_functionalize::twice_", [x], [y]), Node("aten::neg_", [y], [z])])
        functionalize(graph)
        assert [node.op for node in graph.nodes] == ["onnxexp_functionalize::twice", "aten::neg"]
        torch.testing.assert_close(run(graph, [torch.ones(3)]), [torch.full((3,), -2.0)])

        graph = Graph([x], [x], [Node("onnxexp_functionalize::lonely", [x, 1.0], [], where=Where(file="model.py", line=7))])
        with pytest.raises(
            CaptureError, match=r'lonely writes .* at File "model.py", line 7; cure: define an operator .*::lonely_functional'
        ):
            functionalize(graph)


def test_time_is_linear() -> None:
    def seconds(count: int) -> float:
        values = [Value(f"v{index}", TensorType(torch.float32, (4, 4))) for index in range(count + 1)]
        graph = Graph(values[:1], [values[-1]])
        for one, other in itertools.pairwise(values):
            graph.nodes += [Node("aten::relu_", [one], [other])]
        start = time.perf_counter()
        functionalize(graph)
        return time.perf_counter() - start

    assert min(seconds(4000) for _ in range(3)) < 2 * 8 * min(seconds(500) for _ in range(3))
