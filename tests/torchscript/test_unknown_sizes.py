"""Sizes known only at run time: facts without torch, and equalities among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp._neutral_graph import TensorType, Value
from onnxexp_torchscript.jit.jit_schemas import named
from onnxexp_torchscript.types.abstract_tensor import AbstractTensor
from onnxexp_torchscript.types.data_dependent_sizes import UnbackedSizes

from .running import exported

X, INTS = torch.arange(24.0).reshape(4, 6) % 5, torch.arange(24).reshape(4, 6) % 3
MASK, ROWS, COLUMNS = X > 2, X[:, 2] > 1, X[1] > 1
AT = torch.tensor([[0, 3, 1]])
CALLS: list[tuple[str, tuple[Any, ...]]] = [
    *((f"aten::{name}", (x,)) for name in ("nonzero", "argwhere", "nonzero_numpy", "where") for x in (X, MASK, X[:0])),
    *((f"aten::{name}", (torch.tensor(3),)) for name in ("nonzero", "argwhere", "nonzero_numpy")),
    *(("aten::masked_select", (x, mask)) for x, mask in ((X, MASK), (X, COLUMNS), (X[0], MASK), (X[:, :1], COLUMNS))),
    ("aten::index.Tensor", (X, [MASK])),
    ("aten::index.Tensor", (X, [ROWS])),
    ("aten::index.Tensor", (X, [None, COLUMNS])),
    ("aten::index.Tensor", (X, [ROWS, torch.tensor(1)])),
    ("aten::index.Tensor", (X, [AT])),
    ("aten::index.Tensor", (X, [AT, AT[:, :1]])),
    ("aten::index.Tensor", (X[..., None], [AT, None, torch.tensor([0])])),
    ("aten::index.Tensor", (X[None], [None, MASK])),
    *(("aten::_unique2", (INTS, True, inverse, counts)) for inverse in (False, True) for counts in (False, True)),
    *(("aten::unique_consecutive", (INTS, inverse, inverse, None)) for inverse in (False, True)),
    ("aten::unique_consecutive", (INTS, True, True, 1)),
    *(("aten::unique_dim", (INTS, dim, True, False, False)) for dim in (0, -1)),
]


def asked(counts: UnbackedSizes, name: str, args: tuple[Any, ...]) -> Any:
    """Infer the result of a call."""
    outlines = pytree.tree_map_only(torch.Tensor, lambda tensor: AbstractTensor(tensor.dtype, tensor.shape), list(args))
    values = pytree.tree_map_only(torch.Tensor, lambda tensor: Value("x", TensorType(tensor.dtype, tensor.shape)), list(args))
    return counts.result(name, outlines, values)


@pytest.mark.parametrize(("name", "args"), CALLS, ids=[f"{number}-{name}" for number, (name, _) in enumerate(CALLS)])
def test_what_is_said_is_what_torch_gives(name: str, args: tuple[Any, ...]) -> None:
    operator = named(name).op
    assert operator is not None
    given, counts = operator(*args), UnbackedSizes()
    found, env = asked(counts, name, args), counts.env
    expected, said = (list(given), found) if isinstance(given, (tuple, list)) else ([given], [found])
    for tensor, outline in zip(expected, said, strict=True):
        assert (outline.dtype, outline.dim()) == (tensor.dtype, tensor.dim())
        for size, known in zip(tensor.shape, outline.shape, strict=True):
            if isinstance(known, torch.SymInt):
                assert env.var_to_range[known.node.expr].lower <= size <= env.var_to_range[known.node.expr].upper
            else:
                assert size == known


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::item", (torch.tensor(1.5),)),
        ("aten::index.Tensor", (X, [MASK.to(torch.uint8)])),
        ("aten::index.Tensor", (X, [COLUMNS])),
        ("aten::slice.Tensor", (X, 0, 1, 3, 1)),
        ("aten::unique_dim", (torch.tensor(1), 0, True, False, False)),
    ],
)
def test_torch_is_asked(name: str, args: tuple[Any, ...]) -> None:
    assert asked(UnbackedSizes(), name, args) is None


def test_a_limit_and_a_sign_are_noted() -> None:
    counts = UnbackedSizes()
    number, size, known = counts.env.create_unbacked_symint(), counts.any_size(6), counts.env.var_to_range
    assert (known[size.node.expr].lower, known[size.node.expr].upper) == (0, 6)
    assert [counts.may_be_negative(each) for each in (number, size, number + 1, -3, None)] == [True, False, False, False, False]


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def written_between(x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone()
    before = x.nonzero()
    x[0] = 1.0
    return before, x.nonzero()


def by_one_mask(x: Tensor) -> tuple[Tensor, ...]:
    mask = x > 2
    return mask.nonzero(), x[mask], x.masked_select(mask), torch.where(mask)[0], x[:1].masked_select(mask)


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}])
@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        pytest.param(by_one_mask, [0, 0, 0, 0, 0], id="one mask"),
        pytest.param(lambda x: (x.nonzero(), x.relu().nonzero(), x.isnan().nonzero()), [0, 1, 2], id="other tensors"),
        pytest.param(lambda x: ((x + 1).isnan().nonzero(), x.isnan().nonzero()), [0, 1], id="the same operator"),
        pytest.param(written_between, [0, 1], id="written between"),
    ],
)
def test_the_same_question_has_the_same_number(function: Any, numbers: list[int], dynamic: Any) -> None:
    program = exported(Of(function), (X,), capture="trace", dynamic_axes=dynamic, input_names=["x"])
    sizes = [str(output.shape[0]) for output in program.model.graph.outputs]
    first = {size: sizes.index(size) for size in sizes}
    assert [list(first).index(size) for size in sizes] == numbers
    results = program(X)
    for result, expected in zip(results, function(X), strict=True):
        torch.testing.assert_close(result, expected)


def test_pieces_between_unknown_places() -> None:
    class Pieces(nn.Module):
        def forward(self, x: Tensor, places: Tensor) -> Any:
            return torch.tensor_split(x, places)

    program = exported(Pieces(), (X, torch.tensor([1, 3])), capture="trace")
    for places in (torch.tensor([1, 3]), torch.tensor([0, 9]), torch.tensor([-3, -1]), torch.tensor([3, 2])):
        for result, expected in zip(program(X, places), torch.tensor_split(X, places), strict=True):
            torch.testing.assert_close(result, expected)


def split_at_a_tensor(x: Tensor) -> tuple[Tensor, Tensor]:
    first, rest = torch.tensor_split(x, torch.tensor([1]), -1)
    return x * first, rest


def test_a_size_that_is_one_in_the_trace_broadcasts() -> None:
    program = onnxexp.export(split_at_a_tensor, (torch.randn(3, 2),), dynamic_shapes=[{0: "n", 1: "m"}], capture="trace")
    for sizes in ((3, 2), (2, 5), (4, 1)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), split_at_a_tensor(x))
