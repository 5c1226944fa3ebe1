"""Functions of single elements and samples with computed numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from onnxexp_aten.capture.computed_numbers.table import Compositions, Number, as_tensor, is_computed

table = Compositions()


@table("value", (functional, "pad"))
def pad(input: Tensor, pad: Any, mode: str = "constant", value: Number = None) -> Any:
    """Pad with the operator that takes a computed number as its value."""
    return torch.constant_pad_nd(input, pad, value) if mode == "constant" else NotImplemented


@table("scale", (torch._C._nn, "scaled_dot_product_attention"))
def scaled_dot_product_attention(query: Tensor, *args: Any, scale: Number = None, **options: Any) -> Tensor:
    """Multiply the query by the scale."""
    return functional.scaled_dot_product_attention(query * scale, *args, **{**options, "scale": 1.0})


@table("eps", (torch, "logit"), (Tensor, "logit"), (torch.special, "logit"))
def logit(input: Tensor, eps: Number = None) -> Tensor:
    """Compute the log of the odds of a number between `eps` and ``1 - eps``."""
    x = input if input.is_floating_point() else input.to(torch.get_default_dtype())
    inside = torch.where(x < eps, eps, x.clamp_max(1 - eps))
    return torch.log(inside / (1 - inside))


@table("rtol atol", (torch, "isclose"), (Tensor, "isclose"))
def isclose(input: Tensor, other: Tensor, rtol: Number = 1e-5, atol: Number = 1e-8, equal_nan: bool = False) -> Tensor:
    """Compare with a tolerance."""
    close = input == other
    if equal_nan and input.is_floating_point():
        close = close | (input.isnan() & other.isnan())
    other = other if other.is_floating_point() else other.to(torch.get_default_dtype())
    size = (input - other).abs()
    return close | (torch.isfinite(size) & (size <= (other * rtol).abs() + atol))


@table("nan posinf neginf", (torch, "nan_to_num"), (Tensor, "nan_to_num"))
def nan_to_num(input: Tensor, nan: Number = None, posinf: Number = None, neginf: Number = None) -> Tensor:
    """Replace NaN and the infinities."""
    if not input.is_floating_point():
        return input.clone()
    limits = torch.finfo(input.dtype)
    result = torch.where(input.isnan(), 0.0 if nan is None else nan, input)
    result = torch.where(input == torch.inf, limits.max if posinf is None else posinf, result)
    return torch.where(input == -torch.inf, limits.min if neginf is None else neginf, result)


@table("q", (torch, "quantile"), (Tensor, "quantile"), tensors=True)
def quantile(input: Tensor, q: Number, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """Call the overload for a quantile that is a tensor."""
    return torch.quantile(input, as_tensor(q, input), dim, keepdim, interpolation=interpolation)


@table("q", (torch, "nanquantile"), (Tensor, "nanquantile"), tensors=True)
def nanquantile(input: Tensor, q: Number, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """Call the overload for a quantile that is a tensor."""
    return torch.nanquantile(input, as_tensor(q, input), dim, keepdim, interpolation=interpolation)


@table("lower upper", (functional, "rrelu"), (torch, "rrelu"))
def rrelu(input: Tensor, lower: Number = 1 / 8, upper: Number = 1 / 3, training: bool = False, inplace: bool = False) -> Any:
    """Multiply negative numbers by the middle of the bounds, or by a random slope."""
    if inplace:
        return NotImplemented
    slope = torch.rand_like(input) * (upper - lower) + lower if training else (lower + upper) * 0.5
    return torch.where(input < 0, input * slope, input)


@table("exponent", (torch, "float_power"), (Tensor, "float_power"))
def float_power(input: Tensor, exponent: Number) -> Any:
    """Raise to a computed power in float64."""
    return NotImplemented if input.is_complex() else input.double().pow(exponent)


@table("dx", (torch, "trapezoid"), (torch, "trapz"))
def trapezoid(y: Tensor, *, dx: Number = 1, dim: int = -1) -> Tensor:
    """Integrate with unit steps, and multiply by the step."""
    return torch.trapezoid(y, dim=dim) * dx


@table("dx", (torch, "cumulative_trapezoid"))
def cumulative_trapezoid(y: Tensor, *, dx: Number = 1, dim: int = -1) -> Tensor:
    """Integrate with unit steps, and multiply by the step."""
    return torch.cumulative_trapezoid(y, dim=dim) * dx


@table("spacing", (torch, "gradient"))
def gradient(input: Tensor, *, spacing: Number = 1, dim: Any = None, edge_order: int = 1) -> Any:
    """Differentiate with unit steps, and divide by the step."""
    if isinstance(spacing, (list, tuple)):
        return NotImplemented
    dims = list(range(input.dim())) if dim is None else dim
    return [slopes / spacing for slopes in torch.gradient(input, dim=dims, edge_order=edge_order)]


@table("base start end", (torch, "logspace"))
def logspace(start: Number, end: Number, steps: Any, base: Number = 10.0, *, dtype: Any = None, **options: Any) -> Any:
    """Raise the base to evenly spaced powers."""
    if not is_computed(base) or options or (dtype is not None and not dtype.is_floating_point):
        return NotImplemented
    return torch.pow(base, torch.linspace(start, end, steps, dtype=torch.float64)).to(dtype or torch.get_default_dtype())


@table("atol rtol", (torch.linalg, "pinv"), tensors=True)
def pinv(input: Tensor, *, atol: Number = None, rtol: Number = None, hermitian: bool = False) -> Tensor:
    """Call the overload for tolerances that are tensors."""
    tolerances = {name: as_tensor(each, input) for name, each in (("atol", atol), ("rtol", rtol)) if each is not None}
    return torch.linalg.pinv(input, **tolerances, hermitian=hermitian)


@table("atol rtol tol", (torch.linalg, "matrix_rank"), tensors=True)
def matrix_rank(
    input: Tensor, tol: Number = None, *, atol: Number = None, rtol: Number = None, hermitian: bool = False
) -> Tensor:
    """Call the overload for tolerances that are tensors."""
    named = (("atol", tol if atol is None else atol), ("rtol", 0.0 if rtol is None and tol is not None else rtol))
    tolerances = {name: as_tensor(each, input) for name, each in named if each is not None}
    return torch.linalg.matrix_rank(input, **tolerances, hermitian=hermitian)


@table("p", (functional, "dropout"), (torch, "dropout"))
def dropout(input: Tensor, p: Number = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Keep elements with the probability ``1 - p``."""
    if inplace:
        return NotImplemented
    return torch.where(torch.rand_like(input) < p, 0, input / (1 - p)) if training else input


@table("p", (torch, "bernoulli"), (Tensor, "bernoulli"))
def bernoulli(input: Tensor, p: Number) -> Tensor:
    """Draw 1 with the probability `p`, else 0."""
    return (torch.rand_like(input) < p).to(input.dtype)


@table("from_ to", (Tensor, "uniform_"))
def uniform_(input: Tensor, from_: Number = 0, to: Number = 1) -> Tensor:
    """Draw from a range with computed bounds."""
    return input.copy_(torch.rand_like(input) * (to - from_) + from_)


@table("mean std", (Tensor, "normal_"))
def normal_(input: Tensor, mean: Number = 0, std: Number = 1) -> Tensor:
    """Draw from a normal distribution with computed parameters."""
    return input.copy_(torch.randn_like(input) * std + mean)
