"""math/erf_and_bessel.py, gamma.py, orthogonal_polynomials.py: float32 accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import special

from onnxexp.testing import Case, cases

OPSETS = (9, 13, 20)
FLOATS = (torch.float32, torch.float64, torch.float16)
X = torch.cat([torch.linspace(-9, 9, 37) + 0.013, torch.tensor([0.0, 0.5, 1.0, 2.0, 30.0, math.inf, math.nan])])
POSITIVE = torch.cat([torch.linspace(0.01, 20, 30), torch.tensor([0.0])])
LEFT = torch.tensor([-30.0, -8, -1, -0.0, -1e-20, -5e3 - 0.5, -2.999, 1e30, -math.inf])
EDGES = torch.tensor([-1.0, 0.0, 1e-30, 0.3, 3.0, 90.0, math.nan])
WITHIN_1 = torch.cat([torch.linspace(-1, 1, 21), torch.tensor([0.9999, -0.99999, 1.5])])
SHARE = torch.cat([torch.linspace(0, 1, 21), torch.tensor([1e-3, 1e-6])])
TAILS = torch.tensor([0.0, 1.0, 1e-40, 1e-37, 1e-20, 1e-14, 1e-10, 0.13, 0.14, 0.86, 0.87, 0.999999, -1e-40, 1.5, math.nan])
ENDS = torch.tensor([1e30, math.inf, math.nan])
DEGREES = torch.tensor([-1.0, 0, 1, 2, 3, 4.7, 7, 12])


def case(fn: Callable[..., Any], *inputs: torch.Tensor, name: str = "", **options: Any) -> Case:
    half = any(x.dtype == torch.float16 for x in inputs)
    return Case(
        fn, *inputs, rtol=3e-3 if half else 2e-5, atol=3e-3 if half else 1e-6, name=name or fn.__name__, opsets=OPSETS, **options
    )


LARGE = torch.tensor([0.5, 1.0, 90.0, 100.0, 200.0, 1000.0, 1050.0, 1e6, 1.001e6]).double()
"""Each beside each: the sum of a series of as many terms as the root of the larger one, and where nothing is left to sum."""


def polygamma(order: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def of_order(x: torch.Tensor) -> torch.Tensor:
        return torch.polygamma(order, x)

    return of_order


@cases(
    *(case(torch.lgamma, X.to(dtype)) for dtype in FLOATS),
    *(case(torch.digamma, X.to(dtype)) for dtype in (torch.float32, torch.float64)),
    case(torch.lgamma, torch.arange(-3, 9), name="lgamma of ints"),
    case(torch.lgamma, X, dynamic={0: [0]}),
    *(case(fn, LEFT) for fn in (torch.lgamma, torch.digamma)),
    *(case(polygamma(order), LEFT[:5], name=f"polygamma-{order} at whole numbers") for order in (0, 2, 3)),
    *(case(polygamma(order), POSITIVE, name=f"polygamma-{order}") for order in range(5)),
    *(case(polygamma(order), ENDS, name=f"polygamma-{order} of infinity") for order in (1, 2, 3)),
    case(polygamma(2), X, name="polygamma-2 to the left"),
    case(polygamma(1), X[:-2].double(), name="polygamma-1 to the left"),
    case(special.zeta, POSITIVE[:, None] / 4 + 0.5, POSITIVE[None]),
    case(lambda x: special.zeta(x, 2.5), POSITIVE, name="zeta of a number"),
    case(
        special.zeta,
        torch.tensor([2.0, 3, 4, 2.5, 1, 0.5, math.nan])[:, None],
        torch.tensor([-0.3, -7.5, -3, 0, 2, 40, math.nan]),
    ),
    case(torch.igamma, EDGES[:, None], EDGES, name="igamma at its borders"),
    case(torch.igammac, EDGES[:, None], EDGES, name="igammac at its borders"),
    case(torch.igamma, POSITIVE[:, None], POSITIVE[None]),
    case(torch.igammac, POSITIVE[:, None], POSITIVE[None]),
    *(case(fn, LARGE[:, None], LARGE, name=f"{fn.__name__} far out") for fn in (torch.igamma, torch.igammac)),
    case(torch.igamma, LARGE[:0], LARGE[:0], name="igamma of nothing"),
    case(lambda x: torch.mvlgamma(x, 3), POSITIVE + 1.5, name="mvlgamma"),
)
def test_gamma(check):
    check()


@cases(
    *(case(torch.erfinv, WITHIN_1.to(dtype)) for dtype in FLOATS),
    case(special.ndtri, SHARE),
    *(case(special.ndtri, TAILS.to(dtype), name=f"ndtri of small numbers, {dtype}") for dtype in (torch.float32, torch.float64)),
    *(case(fn, X) for fn in (torch.erfc, special.erfcx, special.ndtr, special.log_ndtr)),
    *(case(fn, -X, name=f"{fn.__name__} of the other sign") for fn in (torch.erfc, special.ndtr, special.log_ndtr)),
    *(case(fn, torch.tensor([1e3, -1e30, 1e200]).double(), name=f"{fn.__name__} far away") for fn in (torch.erfc, special.ndtr)),
    case(torch.erfc, torch.tensor([True, False]), name="erfc of bools"),
)
def test_error_functions(check):
    check()


EVEN_AND_ODD = (
    "i0",
    "i0e",
    "i1",
    "i1e",
    "bessel_j0",
    "bessel_j1",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "spherical_bessel_j0",
)
OF_POSITIVE = ("bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0")
OF_POSITIVE += ("scaled_modified_bessel_k1",)
OUTSIDE = torch.tensor([-5.0, -1.0, -1e-30, 0.0, 1e-30, 700.0, math.nan])


@cases(
    *(case(getattr(special, name), X[:-2], name=name) for name in EVEN_AND_ODD),
    *(case(getattr(special, name), POSITIVE, name=name) for name in OF_POSITIVE),
    *(case(getattr(special, name), OUTSIDE, name=f"{name} outside") for name in OF_POSITIVE),
    case(special.i0, torch.arange(-3, 4), name="i0 of ints"),
)
def test_bessel_functions(check):
    check()


FAMILIES = [f"chebyshev_polynomial_{kind}" for kind in "tuvw"]
FAMILIES += [f"shifted_{name}" for name in FAMILIES]
FAMILIES += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
PLACES = torch.linspace(-2.5, 2.5, 11)[:, None]


@cases(
    *(Case(getattr(special, name), PLACES, DEGREES, rtol=5e-5, atol=1e-5, name=name, opsets=OPSETS) for name in FAMILIES),
    case(lambda x: special.chebyshev_polynomial_t(x, 3), PLACES, name="one degree"),
    case(lambda x: (special.chebyshev_polynomial_t(x, 2.5), special.hermite_polynomial_h(x, -2.4)), PLACES, name="half a degree"),
    case(special.legendre_polynomial_p, torch.tensor([math.inf, 1.0]), torch.tensor([0, -1]), name="infinite places"),
    case(lambda n: special.legendre_polynomial_p(0.3, n), DEGREES, name="one place"),
    case(special.airy_ai, torch.linspace(-12, 12, 49)),
)
def test_polynomials(check):
    check()


@pytest.mark.parametrize("digits", [1e-7])
def test_inverse_of_the_error_function_is_one(digits):
    """erf takes the result of the exported erfinv back to its argument."""
    import onnxexp

    class Inverse(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.erfinv(x)

    x = torch.linspace(-0.999, 0.999, 101, dtype=torch.float64)
    assert (torch.erf(onnxexp.export(Inverse(), (x,))(x)) - x).abs().max() < digits
