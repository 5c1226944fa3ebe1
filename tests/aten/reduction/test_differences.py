"""reduction/differences.py: numerical derivatives and integrals."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

X = torch.randn(4, 5, 3)
PLACES = torch.randn(5).cumsum(0)
WHOLE = torch.randint(0, 9, (4, 5))
INFINITE = torch.tensor([[1.0, torch.inf, 2.0, -torch.inf], [torch.inf, torch.inf, 3.0, torch.nan]])


def slopes(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    by_number = *torch.gradient(x), *torch.gradient(x, spacing=0.3), *torch.gradient(x, spacing=2, dim=(-1, 0))
    return (*by_number, *torch.gradient(x, dim=-1), *torch.gradient(x, dim=[0]))


def slopes_of_own_gaps(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return *torch.gradient(x, spacing=(0.5, 3.0), dim=(1, 0)), *torch.gradient(x, spacing=[0.25], dim=-1)


def steeper(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Compute gradients by torch's decomposition, at edges and over given places."""
    return *torch.gradient(x, dim=1, edge_order=2), *torch.gradient(x, spacing=(PLACES,), dim=1)


def areas(y: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Integrate over given places, for one axis or each sample, and over even ones."""
    for_one = [fn(y, x, dim=1) for fn in (torch.trapezoid, torch.trapz, torch.cumulative_trapezoid)]
    for_each = [fn(y, y + 1, dim=0) for fn in (torch.trapezoid, torch.cumulative_trapezoid)]
    for_last = [fn(y, y[0] * 2) for fn in (torch.trapezoid, torch.cumulative_trapezoid)]
    evenly = [fn(y, dx=dx, dim=-2) for dx in (1, 0.25) for fn in (torch.trapezoid, torch.trapz, torch.cumulative_trapezoid)]
    return (
        *for_one,
        *for_each,
        *for_last,
        *evenly,
        torch.trapezoid(y[:, :1], dim=1),
        torch.cumulative_trapezoid(y[:, :1], dim=1),
    )


@cases(
    Case(slopes, X, opsets=(9, 13, 20)),
    Case(slopes, X[:2].double(), name="slopes of doubles", opsets=(9, 20), rtol=1e-12),
    Case(slopes, X.half(), name="slopes of halves", opsets=(9, 20), rtol=2e-3, atol=2e-3),
    Case(slopes, WHOLE, name="slopes of ints", opsets=(9, 20)),
    Case(slopes, INFINITE, name="slopes of infinities", opsets=(9, 20)),
    Case(lambda x: torch.gradient(x, dim=1), X, emits={"Pad": 1, "Slice": 2, "Sub": 1, "Div": 1}, name="one slope"),
    Case(slopes_of_own_gaps, X, opsets=(9, 20)),
    Case(steeper, X, opsets=(11, 20)),
)
def test_gradient(check):
    check()


@cases(
    Case(areas, X, PLACES, dynamic={0: [0, 2]}, opsets=(9, 11, 20)),
    Case(areas, X.double(), PLACES.double(), name="areas of doubles", opsets=(11, 20)),
    Case(areas, WHOLE, PLACES, name="areas of ints", opsets=(11, 20)),
    Case(areas, WHOLE.to(torch.uint8), WHOLE[0].to(torch.uint8), name="areas of bytes", opsets=(14, 20)),
    Case(lambda y: torch.trapezoid(y[0]), INFINITE, name="infinite areas", opsets=(9, 20)),
    Case(lambda y: (torch.trapezoid(y[:, :0]), torch.trapezoid(y[:, :0], y[:, :0])), INFINITE, name="no samples", opsets=(9, 20)),
)
def test_trapezoids(check):
    check()


def differences(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    around = torch.diff(x, n=2, dim=0, prepend=x[:1], append=x[:2] + x[1:3])
    return torch.diff(x), torch.diff(x, 2, 0), torch.diff(x, 0), torch.diff(x, 9), around, torch.diff(x, prepend=x[..., :1].int())


@cases(
    Case(differences, X, dynamic={0: [2]}, opsets=(9, 13, 20)),
    Case(differences, WHOLE, name="differences of ints", opsets=(9, 13, 20)),
    Case(differences, WHOLE.to(torch.uint8), name="differences of bytes", opsets=(14, 20)),
    Case(lambda x: torch.diff(x, 0, prepend=x[..., :1].int(), append=x), X, dynamic={0: [2]}, name="no difference"),
    Case(lambda x: torch.diff(x > 0, 2), X, name="differences of truth values", opsets=(9, 20)),
    Case(lambda x: torch.diff(x, dim=1), X, emits={"Slice": 2, "Sub": 1}, name="one difference"),
)
def test_diff(check):
    check()
