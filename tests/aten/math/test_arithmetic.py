"""math/arithmetic.py: arithmetic under torch's type promotion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

FLOATS = (torch.float32, torch.float64, torch.float16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8)
OPSETS = (9, 11, 13, 20, 23)
Results = tuple[torch.Tensor, ...]

X = torch.randn(3, 4) * 3
Y = torch.randn(4) * 2
Z = torch.randn(3, 4)
POSITIVE = torch.rand(3, 4) + 0.5
I = torch.randint(-9, 9, (3, 4))  # noqa: E741
J = torch.tensor([3, -1, 4, -2])
B = torch.rand(3, 4) > 0.5
C = torch.rand(3, 4) > 0.5


def case(fn: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> Case:
    tolerance = 8e-3 if any(x.dtype == torch.float16 for x in inputs) else 1e-5
    label = f"{fn.__name__}-{str(inputs[0].dtype).removeprefix('torch.')}"
    return Case(fn, *inputs, rtol=tolerance, atol=tolerance, name=label, **{"opsets": OPSETS, **options})


def sums(a: torch.Tensor, b: torch.Tensor) -> Results:
    scaled = torch.add(a, b, alpha=2), torch.sub(a, b, alpha=3), torch.rsub(a, b, alpha=2), torch.add(a, b, alpha=-1)
    return (*scaled, a + b, a - b, torch.rsub(a, b), a * b, a / b)


def bounds(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.maximum(a, b), torch.minimum(a, b), torch.max(a, b), torch.min(a, b), torch.fmax(a, b), torch.fmin(a, b)


def quotients(a: torch.Tensor, b: Any) -> Results:
    rounded = torch.div(a, b, rounding_mode="floor"), torch.div(a, b, rounding_mode="trunc"), torch.div(a, b, rounding_mode=None)
    return (*rounded, a // b, torch.remainder(a, b), torch.fmod(a, b))


def quotients_by_numbers(a: torch.Tensor) -> Results:
    return tuple(result for number in (3, -3, 4, 2.5, -0.5) for result in quotients(a, number))


def with_numbers(a: torch.Tensor) -> Results:
    return a + 1, a + 1.5, a - 1, 1 - a, 2.5 - a, a * 2, a * 2.5, a / 2, a + True, a + 0, a * 1, a - 0, a / 1


def with_numbers_that_wrap(a: torch.Tensor) -> Results:
    return a - 432, a + 300, a * -3, 1000 - a, a > 300, a % 300


@cases(
    case(with_numbers_that_wrap, torch.arange(0, 250, 7).to(torch.uint8)),
    case(with_numbers_that_wrap, torch.arange(-128, 127, 7).to(torch.int8)),
    *(case(fn, X.to(dtype), Y.to(dtype)) for fn in (sums, bounds) for dtype in FLOATS),
    *(case(fn, I.to(dtype), J.to(dtype)) for fn in (sums, bounds, quotients) for dtype in INTS),
    *(case(fn, I.abs().to(torch.uint8), J.abs().to(torch.uint8)) for fn in (bounds, quotients)),
    *(case(quotients, X.to(dtype), Y.to(dtype)) for dtype in (torch.float32, torch.float64)),
    *(case(quotients_by_numbers, x) for x in (X, X.double(), I, I.int(), I.to(torch.int8))),
    *(case(with_numbers, x) for x in (X, X.double(), X.half(), I, I.int(), I.short())),
    case(sums, X, Y, dynamic={0: [0]}),
    case(quotients, I, J, dynamic={0: [0]}),
)
def test_arithmetic(check):
    check()


def of_bools(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a + b, a * b, a / b.logical_or(~b), torch.maximum(a, b), torch.minimum(a, b), a + 1, a * 2.5


def mixed(a: torch.Tensor, b: torch.Tensor, i: torch.Tensor, h: torch.Tensor, d: torch.Tensor) -> Results:
    return a + i, i * a, i / 2, h + i, d * a, d + h, b + a, b * i, torch.maximum(a, i), i * 2.5, b * 2, h * a


def with_0d(a: torch.Tensor, number: torch.Tensor, whole: torch.Tensor) -> Results:
    return a + number, whole + number, a * whole, whole * 2.5, number + 1, whole * a.double(), a.int() * number


@cases(
    case(of_bools, B, C),
    case(mixed, X, B, I, X.half(), X.double(), opsets=(9, 13, 20)),
    case(with_0d, X, torch.tensor(2.5), torch.tensor(3)),
)
def test_promotion(check):
    check()


def powers(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a**2, a**0.5, a**-1, a**-0.5, a**1, a**3, a**b, 2**a, a**2.5, a**0, torch.float_power(a, 2), torch.ldexp(a, b)


def whole_powers(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a**2, a**3, a**b, 2**b, a**1, a**0.5, torch.float_power(a, b), torch.ldexp(a, b)


def any_powers(a: torch.Tensor, b: torch.Tensor) -> Results:
    return a**b, 2**b, torch.pow(0, b), torch.pow(-1, b)


def long_powers(a: torch.Tensor, b: torch.Tensor) -> Results:
    """Compute powers beyond the 53 bits of a float64, which wrap around."""
    large = a * 2**40 + 3
    by_one = a ** torch.tensor([41]), a ** torch.tensor(2**40 + 3)
    return a**b, a**39, a**5, a**64, large**2, large**3, 3**b, a[:0] ** b[:0], *by_one


BASES, EXPONENTS = torch.tensor([0, 0, 0, 1, -1, -1, 2, -3, 5]), torch.tensor([-5, 0, 3, -2, -3, -4, -1, -2, 4])


@cases(
    *(case(any_powers, BASES.to(dtype), EXPONENTS.to(dtype)) for dtype in (torch.int64, torch.int32)),
    *(case(long_powers, BASES.to(dtype), 13 * EXPONENTS.to(dtype)) for dtype in (torch.int64, torch.int32, torch.int8)),
    case(long_powers, BASES.abs().to(torch.uint8), EXPONENTS.abs().to(torch.uint8) * 13),
    case(long_powers, BASES, torch.tensor([2**63 - 1, -(2**63), 0, 63, -(2**63), 2**63 - 1, 62, 40, 27])),
    *(case(powers, POSITIVE.to(dtype), Y.to(dtype)) for dtype in FLOATS),
    *(case(whole_powers, I.abs().to(dtype), J.abs().to(dtype)) for dtype in (torch.int64, torch.int32, torch.int8)),
)
def test_powers(check):
    check()


def clamps(a: torch.Tensor, b: torch.Tensor) -> Results:
    tensors = a.clamp(b, b + 1), a.clamp(min=b), a.clamp_min(b), a.clamp_max(b)
    return (*tensors, a.clamp(-1, 1), a.clamp(min=0.5), a.clamp(max=0.5), a.clamp_min(0), a.clamp_max(1), a.clamp(2, 1))


def whole_clamps(a: torch.Tensor) -> Results:
    return a.clamp(-1, 1), a.clamp(min=2), a.clamp_min(0), a.clamp_max(1), a.clamp(min=0.5)


def nan_is_ignored(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.fmax(a, b), torch.fmin(a, b), torch.maximum(a, b)


NAN = torch.tensor([[float("nan"), 1.0, float("nan"), 2.0], [1.0, float("nan"), 3.0, 4.0]])


@cases(
    *(case(clamps, X.to(dtype), Y.to(dtype)) for dtype in FLOATS),
    *(case(whole_clamps, I.to(dtype)) for dtype in INTS),
    case(nan_is_ignored, NAN, NAN.flip(1)),
)
def test_bounds(check):
    check()


def choices(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, i: torch.Tensor) -> Results:
    numbers = torch.where(c, a, 1.0), torch.where(c, 0, a), torch.where(c, 1.0, 0.0), torch.where(c, 1, 0)
    others = torch.where(c, i, a), torch.where(c, i.to(torch.int8), 3), torch.where(c, i.short(), i.short() * 2)
    return (*numbers, *others, torch.where(c, a, b), torch.where(c, a.half(), a.half() * 2), torch.where(c, a.double(), 1))


def choices_of_truth(c: torch.Tensor, a: torch.Tensor) -> Results:
    p = a > 0
    numbers = torch.where(c, p, True), torch.where(c, p, False), torch.where(c, True, p), torch.where(c, False, p)
    return (*numbers, torch.where(c, p, ~p), p.masked_fill(c, True), p.masked_fill(c, False), p.masked_fill(c, 0.5))


def masked(a: torch.Tensor, mask: torch.Tensor, i: torch.Tensor, value: torch.Tensor) -> Results:
    whole = i.masked_fill(mask, 3), i.masked_fill(mask, -2.7)
    return *whole, a.masked_fill(mask, -1e9), a.masked_fill(mask, float("-inf")), a.masked_fill(mask, value)


@cases(
    case(choices, B, X, Y, I),
    case(choices_of_truth, B, X),
    case(masked, X, B, I, torch.tensor(3.0), dynamic={0: [0], 1: [0], 2: [0]}),
    Case(torch.where, B, X, Z, emits={"Where"}),
)
def test_choices(check):
    check()


def of_three(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Results:
    products = torch.addcmul(a, b, c, value=2), torch.addcmul(a, b, c), torch.addcdiv(a, b, c + 10, value=0.5)
    return (*products, torch.lerp(a, b, 0.3), torch.lerp(a, b, c))


def product_by_a_float(i: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.addcmul(i, i, i, value=1.7), torch.addcmul(i, b, i, value=-0.5)


INFINITIES = torch.tensor([float("inf"), float("-inf"), float("-inf"), 1.0, float("nan")])


def truths(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.add(a, b), torch.add(a, b, alpha=False), torch.add(a, b, alpha=True)


@cases(case(truths, B, C))
def test_truths_are_added(check):
    check()


def along(a: torch.Tensor, b: torch.Tensor) -> Results:
    return tuple(torch.lerp(a, b, weight) for weight in (0.0, 0.25, 0.5, 0.75, 1.0, -1.0))


def floors(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.floor_divide(a, b), torch.div(a, b, rounding_mode="floor"), a // 3


LARGE = torch.tensor([8388609.0, -8388611.0, 8388609.0 * 3, -4194305.5, 1e30]), torch.tensor([1.0, 1.0, 3.0, 1.0, -0.7])
ENDLESS = torch.tensor([-1.0, 5.0, 5.0, float("inf"), 0.0]), torch.tensor([float("inf"), float("-inf"), float("inf"), 2.0, 0.0])


@cases(
    Case(floors, *LARGE, opsets=OPSETS, rtol=0, atol=0, name="large"),
    Case(floors, *ENDLESS, opsets=(10, 13, 20), name="endless"),
)
def test_floors_of_what_is_large(check):
    check()


FAR = torch.tensor([1e8, 1.0, 1.0, float("inf"), 2.0]), torch.tensor([1.0, 1e8, float("inf"), 2.0, float("-inf")])


@cases(case(along, *FAR), case(along, *(x.half() for x in FAR)))
def test_interpolation_begins_at_the_nearer_end(check):
    check()


def handed_on(x: torch.Tensor) -> Results:
    """Pass NaN to operators that docs/how-to/debug-a-wrong-number.md does not list."""
    y = x.flip(0)
    bounds = torch.maximum(x, y), torch.minimum(x, y), torch.clamp(x, -1, 1), x.relu(), torch.nn.functional.hardtanh(x)
    sums = x.sum(0), x.mean(0), x.cumsum(0), x.prod(0), x.softmax(0), x.log_softmax(0), x.logsumexp(0)
    return (*bounds, *sums, torch.floor(x), torch.sigmoid(x), torch.nn.functional.leaky_relu(x), torch.where(x > 0, x, y))


@cases(case(handed_on, torch.tensor([[1.0, -2.0, float("nan")], [float("nan"), 0.5, 3.0], [2.0, 4.0, -1.0]]), opsets=(13, 20)))
def test_nan_is_handed_on(check):
    check()


def bounded_on_one_side(x: torch.Tensor) -> Results:
    return x.clamp(min=0), x.clamp(max=0), x.clamp_min(0.5), x.clamp_max(0.5)


@cases(*(case(bounded_on_one_side, INFINITIES.to(dtype)) for dtype in FLOATS))
def test_what_has_one_bound_may_be_infinite(check):
    check()


@cases(case(torch.logaddexp, INFINITIES, torch.tensor([float("inf"), float("-inf"), float("inf"), float("-inf"), 1.0])))
def test_infinities(check):
    check()


def of_two(a: torch.Tensor, b: torch.Tensor) -> Results:
    logarithms = torch.logaddexp(a, b), torch.logaddexp2(a, b)
    return (
        *logarithms,
        torch.hypot(a, b),
        torch.copysign(a, b),
        torch.copysign(a, -1.0),
        torch.heaviside(a, a),
        torch.atan2(a, b),
    )


@cases(
    case(product_by_a_float, I, I.to(torch.int32)),
    *(case(of_three, X.to(dtype), Z.to(dtype), POSITIVE.to(dtype)) for dtype in FLOATS),
    *(case(of_two, X.to(dtype), Y.to(dtype)) for dtype in (torch.float32, torch.float64)),
    case(torch.atan2, torch.tensor([0.0, 0.0, 1.0, -1.0, 0.0, 1.0]), torch.tensor([0.0, 1.0, 0.0, 0.0, -1.0, -1.0])),
)
def test_functions_of_several(check):
    check()


def of_signs(a: torch.Tensor, b: torch.Tensor) -> Results:
    return torch.copysign(a, b), torch.copysign(a, -0.0), torch.signbit(b), torch.atan2(b, a), torch.atan2(a, b)


SIGNS = torch.tensor([0.0, -0.0, 1.0, -2.0])


def infinities(a: torch.Tensor, b: torch.Tensor) -> Results:
    """Compute reciprocals, which show the signs of zeros."""
    return 1 / torch.copysign(a, b), 1 / torch.copysign(a, -1.0), 1 / torch.diag_embed(a, 1), 1 / torch.diag(a)


@cases(*(case(fn, SIGNS.to(dtype), SIGNS[:, None].to(dtype)) for dtype in FLOATS for fn in (of_signs, infinities)))
def test_the_sign_of_zero(check):
    check()


@cases(
    *(case(fn, I.to(dtype), J.to(dtype)) for fn in (torch.gcd, torch.lcm) for dtype in INTS),
    case(torch.gcd, torch.tensor([0, 0, 2**40, 6]), torch.tensor([0, 5, 2**20 * 3, -4]), dynamic={0: [0], 1: [0]}),
)
def test_divisors(check):
    check()


@cases(
    Case(torch.add, X, Y, emits={"Add"}),
    Case(lambda x: x.pow(2).mean(-1), X, emits={"Pow", "ReduceMean"}, name="pow"),
    Case(lambda x: x * torch.tensor(3) ** torch.tensor([35, 36, -1]), I[:, :3], emits={"Mul"}, name="a power of constants"),
    Case(lambda x: x * 1 / 1 - 0, X, emits={"Identity"}, name="nothing to do"),
    Case(lambda i: i // 4, I, emits={"Mod", "Sub", "Div"}, opsets=(13, 20), name="floor of ints"),
    Case(lambda x: x // 4, X, emits={"Div", "Floor"}, name="floor by a power of two"),
    Case(lambda x: x.clamp(0, 6), X, emits={"Clip"}, name="clamp"),
)
def test_what_is_emitted(check):
    check()
