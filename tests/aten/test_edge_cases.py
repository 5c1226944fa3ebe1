"""Edge cases of operators of several sub-packages."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 20)


def case(fn, *inputs: torch.Tensor, name: str = "", **options) -> Case:
    return Case(fn, *inputs, name=name or fn.__name__, **{"opsets": OPSETS, **options})


def between(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    spaces = torch.linspace(a, b, 5), torch.linspace(a, 3, 4), torch.linspace(0, b, 1), torch.linspace(a, b, 4, dtype=torch.int64)
    return (*spaces, torch.logspace(a, b, 5), torch.logspace(a, 2, 3, base=2.0))


@cases(
    case(between, torch.tensor(0.5), torch.tensor(2.25), rtol=1e-6, atol=1e-6),
    case(lambda x: torch.nonzero_static(x > 0, size=5), torch.tensor([[1.0, -1.0], [2.0, 3.0]]), name="filled up"),
    case(lambda x: torch.nonzero_static(x > 0, size=2), torch.tensor([[1.0, -1.0], [2.0, 3.0]]), name="cut off"),
    case(F.pdist, torch.randn(5, 3), rtol=1e-5, atol=1e-5),
    case(
        lambda x, y: x.as_strided_scatter(y, (2, 2), (5, 2), 1), torch.randn(3, 5), torch.randn(2, 2), name="as_strided_scatter"
    ),
    case(
        lambda x, i, j, v: x.index_put((i, j), v, accumulate=True),
        torch.randn(4, 3, 2),
        torch.tensor([[0, 0], [-1, 0]]),
        torch.tensor([1, 1]),
        torch.randn(2, 2, 2),
        name="adding up at places of two indices",
        rtol=1e-6,
    ),
    case(
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        torch.tensor([True, False, False]),
        torch.tensor([1, 1]),
        torch.tensor([True, False]),
        name="adding up bools",
    ),
)
def test_more_indexing(check):
    check()


def averages(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    plain = F.avg_pool2d(x, 3, 2), F.avg_pool2d(x, 3, 2, padding=1), F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False)
    return (*plain, F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2, divisor_override=3))


@cases(
    case(averages, torch.randint(-9, 9, (1, 2, 8, 8)), name="averages of ints"),
    case(lambda i: F.one_hot(i, 4), torch.tensor(2), name="one_hot of a number"),
    case(lambda x: F.pad(x, (-2, 3, 1, -3), mode="replicate"), torch.randn(1, 2, 3, 4), name="replication that crops"),
    case(lambda x: F.pad(x, (-2, 3), mode="replicate"), torch.randn(2, 2), name="replication of what is cropped away"),
    case(lambda x: F.pad(x, (1, 2, 1, 1), mode="circular"), torch.randn(1, 2, 3, 4), name="circular"),
    case(lambda x: (x @ torch.ones(4, 2), x.sum(1), x.unsqueeze(0)), torch.ones(0, 4), name="nothing"),
    case(
        lambda x, m, v: torch.addmv(x, m, v, beta=0.6, alpha=2.9),
        torch.arange(2),
        torch.ones(2, 3).long(),
        torch.arange(3),
        name="factors of ints",
    ),
)
def test_what_once_was_wrong(check):
    check()
