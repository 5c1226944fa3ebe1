"""math/unary.py: every function, in every dtype that torch takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

FLOATS = (torch.float32, torch.float64, torch.float16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8)
OPSETS = (9, 11, 13, 20, 23)

ANY = torch.randn(3, 4) * 3
ANY[0] = torch.tensor([0.0, 0.5, 2.5, -1.5])
ODD = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), -2.5])
WITHIN_1 = torch.rand(3, 4) * 1.8 - 0.9
ABOVE_1 = torch.rand(3, 4) + 1.1
WHOLE = torch.randint(-5, 6, (3, 4))
TRUTH = torch.rand(3, 4) > 0.5


def every(names: str) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    def apply(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(getattr(torch, name)(x) for name in names.split())

    return apply


def case(name: str, fn: Callable[..., Any], x: torch.Tensor, **options: Any) -> Case:
    tolerance = 2e-3 if x.dtype == torch.float16 else 1e-5
    label = f"{name}-{str(x.dtype).removeprefix('torch.')}"
    return Case(fn, x, rtol=tolerance, atol=tolerance, opsets=OPSETS, name=label, **options)


ROUNDING = "ceil floor trunc frac round"
EVERYWHERE = f"abs neg sign sgn signbit {ROUNDING} square exp2 expm1 deg2rad rad2deg sinc exp sin cos tanh sigmoid erf erfc"
FINITE = "isnan isinf isposinf isneginf isfinite nan_to_num"


@cases(*(case("anywhere", every(EVERYWHERE), ANY.to(dtype)) for dtype in FLOATS))
def test_of_any_float(check):
    check()


@cases(*(case("within-1", every("acos asin atan asinh atanh sinh cosh tan log1p"), WITHIN_1.to(dtype)) for dtype in FLOATS))
def test_of_floats_within_one(check):
    check()


@cases(*(case("above-1", every("acosh log log2 log10 sqrt rsqrt reciprocal"), ABOVE_1.to(dtype)) for dtype in FLOATS))
def test_of_floats_above_one(check):
    check()


@cases(*(case("odd", every(f"{FINITE} {ROUNDING.replace('frac', 'exp')} abs neg"), ODD.to(dtype)) for dtype in FLOATS))
def test_of_what_is_no_finite_number(check):
    check()


@cases(
    *(
        case("int", every("abs neg sign sgn signbit square ceil floor trunc round isnan isinf isfinite exp sin"), WHOLE.to(dtype))
        for dtype in INTS
    ),
    case("unsigned", every("abs sign signbit square ceil isnan isfinite sqrt exp tanh"), WHOLE.abs().to(torch.uint8)),
    case("bool", every("sign sgn signbit isnan isinf isfinite exp sin sqrt"), TRUTH),
)
def test_of_ints(check):
    check()


def logits(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.logit(x), torch.logit(x, 0.1)


def decimals(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.round(x, decimals=2), torch.round(x, decimals=-1), torch.round(x, decimals=0)


def replaced(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.nan_to_num(x, 1.0, 2.0, -3.0), torch.nan_to_num(x, neginf=5.0), torch.nan_to_num(x, posinf=1.0)


@cases(
    *(case("logit", logits, (WITHIN_1.to(dtype) + 1) / 2) for dtype in FLOATS),
    *(case("decimals", decimals, ABOVE_1.to(dtype) * 10) for dtype in FLOATS),
    *(case("replaced", replaced, ODD.to(dtype)) for dtype in FLOATS),
)
def test_with_options(check):
    check()


@cases(
    Case(torch.abs, ANY, dynamic={0: [0, 1]}, emits={"Abs"}),
    Case(torch.round, ANY, dynamic={0: [0]}, emits={"Round"}),
    Case(torch.rsqrt, ABOVE_1, emits={"Sqrt", "Reciprocal"}),
    Case(torch.isinf, ODD, emits={"IsInf"}),
    Case(torch.floor, WHOLE, emits={"Identity"}, name="floor of ints is nothing, an output needs a node"),
)
def test_what_is_emitted(check):
    check()


@cases(Case(torch.expm1, torch.tensor([1e-6, -1e-5, 1e-3, 0.0, 20.0, -30.0]), rtol=1e-5, atol=0.0))
def test_expm1_is_exact_near_zero(check):
    check()
