"""Statements that compute elementwise: functions, promotion, conversions, scalars."""

from __future__ import annotations

from .scope import Scope, boolean, floating, integral

_FLOAT = (
    "torch.sin({x})", "{x}.tanh()", "torch.sigmoid({x})", "F.gelu({x})", "{x}.abs().sqrt()", "torch.log1p({x}.abs())",
    "{x}.floor()", "{x}.round()", "{x}.sign()", "-{x}", "F.leaky_relu({x}, 0.1)", "F.softplus({x})", "F.hardtanh({x})",
    "F.elu({x})", "{x}.clamp(-1, 1)", "{x}.clamp(min=0.5)", "torch.erf({x})", "torch.atan({x})", "{x}.trunc()", "{x}.frac()",
    "F.silu({x})", "F.hardswish({x})", "torch.isfinite({x})", "{x}.square()", "{x} ** 2", "2 ** {x}.clamp(-3, 3)",
    "1 / ({x}.abs() + 1)", "F.softsign({x})", "{x}.abs().rsqrt().clamp(max=9)", "{x}.exp().clamp(max=20.0)", "abs({x})",
    "{x}.ceil()", "torch.sinc({x})", "F.relu6({x})", "{x}.relu()", "torch.nan_to_num({x})", "{x}.logit(0.2)", "{x} % 2",
    "F.threshold({x}, 0.1, 2.0)", "F.hardshrink({x})", "torch.asinh({x})", "{x}.isnan()", "torch.signbit({x})",
)  # fmt: skip
_INT = (
    "{x}.abs()", "-{x}", "~{x}", "{x} % 3", "{x} // 2", "{x} << 1", "{x} / 2", "{x} ** 2", "{x}.clamp(0, 2)", "{x}.sign()",
    "{x} & 3", "{x} | 1", "{x} ^ 5", "{x} >> 1", "{x}.sin()", "{x}.clamp(max=1)", "{x}.relu()", "{x}.sqrt().nan_to_num()",
    "{x}.floor_divide(3)", "{x}.fmod(3)", "{x}.exp().clamp(max=9)", "{x}.square()", "{x}.clip(-1, 2.5)", "{x}.bool()",
)  # fmt: skip
_BOOL = (
    "~{x}", "{x}.long()", "{x} + 1", "{x} * 1.5", "{x}.logical_not()", "{x}.float()", "{x} & True", "{x} * True", "{x} ^ True",
    "{x}.int() - 1", "{x}.to(torch.uint8)", "{x} / 2", "-{x}.float()",
)  # fmt: skip
_BINARY = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} * {y}", "torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "{x} == {y}",
    "{x} < {y}", "{x} >= {y}", "{x} != {y}", "{x} / ({y}.abs() + 1)", "{x} // ({y}.abs() + 1)", "{x} % ({y}.abs() + 1)",
    "torch.add({x}, {y}, alpha=2)", "torch.sub({x}, {y}, alpha=2)", "torch.where({x} > 0, {x}, {y})", "torch.hypot({x}, {y})",
    "torch.div({x}, {y}.abs() + 1, rounding_mode='floor')", "torch.div({x}, {y}.abs() + 1, rounding_mode='trunc')",
    "torch.fmod({x}, {y}.abs() + 1)", "torch.logical_and({x}, {y})", "torch.logical_xor({x}, {y})", "torch.atan2({x}, {y})",
    "torch.where({y} > {x}, {y}, 0)", "torch.lerp({x}, {y}, 0.3)", "{x}.copysign({y})",
    "torch.addcmul({x}, {y}, {y}, value=0.5)", "torch.fmax({x}, {y})", "torch.xlogy({x}, {y}.abs() + 1)",
    "torch.heaviside({x}, {y})", "{x}.rsub({y})", "torch.isclose({x}, {y})", "F.mse_loss({x}, {y}, reduction='none')",
    "{x}.ldexp({y}.clamp(0, 3))", "{x} & {y}", "{x} | {y}", "torch.clamp({x}, {y} - 1, {y} + 1)", "{x}.masked_fill({y} > 0, 2)",
    "torch.where({y}.bool(), {x}, {x}.sum())",
)  # fmt: skip
_SCALARS = (
    "{x} + {c}", "{x} * {c}", "{c} - {x}", "{x} - {c}", "{x} > {c}", "{x} == {c}", "torch.where({x} > 0, {x}, {c})",
    "torch.where({x} > 0, {c}, {x})", "{x} + torch.tensor({c})", "{x} * torch.tensor([{c}])", "torch.tensor({c}) * {x}",
    "{x}.add({c}, alpha=2)", "{x}.clamp(min={c})", "{x}.masked_fill({x} > 0, {c})", "torch.full_like({x}, {c})",
    "torch.maximum({x}, torch.tensor({c}))", "{x}.float() ** abs({c})", "torch.true_divide({x}, 2)", "{x} * ({c} + 1)",
)  # fmt: skip
_DTYPES = ("torch.float32", "torch.float64", "torch.int64", "torch.int32", "torch.bool", "torch.uint8")
_SIZES = (
    "{x} * {x}.shape[{d}]", "{x} + {x}.shape[{d}] // 2", "{x} / {x}.size({d})", "{x} - {x}.numel()",
    "{x} * math.sqrt({x}.shape[{d}])", "{x} + float({x}.shape[{d}])", "{x} * ({x}.shape[{d}] - 1)", "{x} + {x}.dim()",
    "{x} * ({x}.shape[{d}] % 3)", "{x} * max({x}.shape[{d}], 2)", "{x} + min({x}.shape[{d}], 7)", "{x} / {x}.shape[{d}] ** 0.5",
    "{x} * len({x})",
)  # fmt: skip


def unary(s: Scope) -> str:
    x = s.tensor(ragged=True)
    value = s.values[x]
    table = _FLOAT if floating(value) else _BOOL if boolean(value) else _INT
    return f"{s.new()} = {s.choice(table).format(x=x)}"


def binary(s: Scope) -> str:
    x = s.tensor()
    y = s.fitting(s.shape(x))
    return f"{s.new()} = {s.choice(_BINARY).format(x=x, y=y)}"


def promoted_scalar(s: Scope) -> str:
    return f"{s.new()} = {s.choice(_SCALARS).format(x=s.tensor(ragged=True), c=s.scalar())}"


def converted(s: Scope) -> str:
    x = s.tensor()
    dtype = s.choice(_DTYPES)
    form = s.choice(["{x}.to({t})", "{x}.type_as({y})", "{x}.to({t}) + {x}", "{x}.to({y})", "{x}.to({t}, copy=True)"])
    return f"{s.new()} = {form.format(x=x, t=dtype, y=s.tensor())}"


def size_arithmetic(s: Scope) -> str:
    x = s.tensor(lambda value: value.dim() > 0)
    return f"{s.new()} = {s.choice(_SIZES).format(x=x, d=s.dim(x))}"


def chosen(s: Scope) -> str:
    """Write a choice between three tensors that broadcast."""
    x = s.tensor()
    mask, y = s.fitting(s.shape(x)), s.fitting(s.shape(x), lambda value: integral(value) or floating(value))
    return f"{s.new()} = torch.where({mask} > {s.scalar()}, {x}, {y})"
