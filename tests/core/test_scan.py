"""scan, map, associative_scan and vmap, at lengths that were not seen."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan
from torch._higher_order_ops.map import map as map_over

import onnxexp
from onnxexp.testing import Case, cases

pytest.importorskip("onnxexp_aten", reason="the operators are the aten plugin's")
torch.manual_seed(0)
ROWS = torch.randn(5, 3)


def over(fn, *others, first=ROWS, dynamic=None, opsets=(9, 20), **options):
    """Build a case with a dynamic first axis of the first input."""
    return Case(fn, first, *others, dynamic={0: [0]} if dynamic is None else dynamic, opsets=opsets, **options)


def summed(x):
    return scan(lambda c, x: (c + x, c * x), torch.zeros(3), x)


def backwards(x):
    return scan(lambda c, x: (c + x, c * x), torch.zeros(3), x, reverse=True)


def along_axis_1(x):
    return scan(lambda c, x: (c * 0.5 + x, c + 1), x[:, 0] * 0, x, dim=1)


def in_a_tree(x):
    return scan(lambda c, x: ({"a": c["a"] + x}, (c["a"] * 1, x * 2)), {"a": torch.zeros(3)}, x)


def of_two(x, y):
    return scan(lambda c, xs: ((c[0] + xs[0], c[1] * xs[1]), (c[0] * xs[1],)), (torch.zeros(3), torch.ones(3)), (x, y))


def handed_on(x):
    return scan(lambda c, x: (c.clone(), x + c), torch.ones(3), x)


def cond_in_scan(x):
    return scan(lambda c, x: (torch.cond(x.sum() > 0, lambda c: c + 1, lambda c: c - 1, (c,)), c * 2), torch.zeros(3), x)


class Recurrence(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return scan(lambda c, x: (self.linear(c).tanh() + x, c.clone()), torch.zeros(3), x)


def of_ints(x):
    return scan(lambda c, x: (c + x, c * x), torch.zeros(3, dtype=torch.long), x)


def of_batches(x):
    return scan(lambda c, x: (c * 0.9 + x, c + x), x[0] * 0, x)


@cases(
    *(over(fn) for fn in (summed, backwards, handed_on, in_a_tree, cond_in_scan)),
    over(along_axis_1, dynamic={0: [0, 1]}),
    over(of_two, ROWS + 1, dynamic={0: [0], 1: [0]}),
    over(Recurrence(), opsets=(9, 11, 13, 20, 23)),
    over(of_ints, first=ROWS.long()),
    over(of_batches, first=torch.randn(4, 3, 2), dynamic={0: [0, 1]}),
)
def test_scan(check):
    check()


class Mapped(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return map_over(lambda row: (self.linear(row), row.sum()), x)


@cases(over(Mapped()), over(lambda x: map_over(lambda row, y: row * 2 + y, x, torch.ones(3)), emits={"Scan"}, name="map"))
def test_map(check):
    check()


def running(x):
    return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")


def running_backwards(x):
    return associative_scan(lambda a, b: a * b, x, 0, reverse=True, combine_mode="generic")


def linear_recurrence(x):
    return associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x.sigmoid(), x), 0, combine_mode="generic")


@cases(
    *(over(fn) for fn in (running, running_backwards, linear_recurrence)),
    over(
        lambda x: associative_scan(torch.maximum, x, 1, combine_mode="generic"),
        dynamic={0: [0, 1]},
        name="axis 1",
    ),
)
def test_associative_scan(check):
    """torch's own associative_scan is unrolled for the length of the example."""
    check()


def test_associative_scan_at_any_length():
    program = onnxexp.export(linear_recurrence, (ROWS,), dynamic_shapes={"x": {0: "time"}})
    for length in (2, 3, 7, 16):
        sample = torch.randn(length, 3)
        torch.testing.assert_close(program(sample), linear_recurrence(sample))


# vmap


@cases(
    over(lambda x: torch.vmap(lambda row: row.softmax(-1) * row.sum())(x), name="rows"),
    over(
        lambda x: torch.vmap(torch.vmap(lambda a, b: a * b + 1, (None, 0)), (0, None))(x[:, 0], x[0]),
        name="outer",
    ),
    over(lambda x: torch.vmap(lambda i: i * 2 + x.sum())(torch.arange(x.shape[0])), name="places"),
    over(lambda x: torch.vmap(lambda row, y: row @ y, (0, None))(x, torch.ones(3, 2)), name="product"),
)
def test_vmap(check):
    check()
