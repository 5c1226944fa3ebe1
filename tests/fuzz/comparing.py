"""Compare a model's results with eager's, and decide what rounding explains."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.conformance.judging import difference

from .running import eager

_STEP = {torch.bfloat16: 8e-3, torch.float16: 1e-3, torch.float32: 1e-6, torch.float64: 1e-6}
"""The relative changes of inputs that a computation should survive. Some kernels for float64 compute in float32."""

_FLOOR = {torch.bfloat16: 1.6e-2}
"""Parts of the largest result that count as rounding: two units in the last place; 1e-5 for other dtypes."""

_SUMS = ("sum", "mean", "avg", "std", "var", "norm", "mm", "conv", "linear", "upsample", "fft")
"""Parts of the names of operators whose results may cancel out."""

Problem = tuple[str, str, int]
"""The outcome, what differs, and the number of the output."""


def compared(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]) -> Problem | None:
    """Return the first problem; wrong shapes and dtypes come before wrong values."""
    if len(expected) != len(actual):
        return "wrong outputs", f"{len(expected)} outputs in eager, {len(actual)} in ONNX", 0
    pairs = [*enumerate(zip(expected, actual, strict=True))]
    for number, (one, other) in pairs:
        if one.shape != other.shape:
            return "wrong shape", f"shape {list(one.shape)} in eager, {list(other.shape)} in ONNX", number
        if one.dtype != other.dtype:
            return "wrong dtype", f"{one.dtype} in eager, {other.dtype} in ONNX", number
    for number, (one, other) in pairs:
        found = difference(one, other)
        if found:
            return "wrong value", f"{found} eager {_short(one)} ONNX {_short(other)}", number
    return None


def _short(x: torch.Tensor) -> str:
    return " ".join(str(x.flatten()[:8].tolist()).split())


def is_rounding(
    make: Callable[[], torch.nn.Module],
    tensors: Sequence[torch.Tensor],
    expected: torch.Tensor,
    actual: torch.Tensor,
    number: int,
) -> bool:
    """Return whether a difference is rounding: eager itself can have such a result.

    Eager runs in float64, and with other last digits of inputs or intermediate results.
    """
    with _default_dtype(torch.float64):  # integers times a Python float
        exact = _results(lambda: make().double(), [x.double() if x.is_floating_point() else x for x in tensors], number)
    if exact is not None and exact.shape == actual.shape and not difference(exact.to(actual.dtype), actual):
        return True
    if actual.shape == expected.shape and bool((_distance(actual, expected) <= _floor(expected)).all()):
        return True
    reach = torch.zeros(expected.shape, dtype=torch.float64)
    for seed in range(16):
        with _Rounding(seed) if seed % 2 else contextlib.nullcontext():
            other = _results(make, [_perturbed(x, seed) for x in tensors], number)
        if other is None:  # eager may refuse the changed values, and torch.while_loop a second kind of call
            continue
        if other.shape != expected.shape:
            return True
        reach = torch.maximum(reach, _distance(other, expected))
    if actual.shape != expected.shape:
        return False
    sizes = expected.double().abs().nan_to_num()
    relative = (reach / sizes).nan_to_num(posinf=0)
    typical = relative.median() if relative.numel() else 0.0  # two changes may cancel out in one element
    return bool((_distance(actual, expected) <= 20 * torch.maximum(reach, typical * sizes) + _floor(expected)).all())


def _floor(expected: torch.Tensor) -> float:
    """Return the difference that counts as rounding in any program.

    The limit applies even where eager cannot run with other last digits.
    """
    if not expected.is_floating_point() or not expected.numel():
        return 0.0
    return _FLOOR.get(expected.dtype, 1e-5) * max(1.0, float(expected.double().abs().nan_to_num(posinf=0).max()))


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return absolute differences: 0 of two NaNs, infinite of a NaN and a number."""
    equal = (one == other) | (one.isnan() & other.isnan())
    return (one.double() - other.double()).abs().nan_to_num(nan=torch.inf).masked_fill(equal, 0)


def _results(make: Callable[[], torch.nn.Module], tensors: Sequence[torch.Tensor], number: int) -> torch.Tensor | None:
    try:
        return eager(copy.deepcopy(make()), tensors)[number]
    except Exception:  # noqa: BLE001 - eager may refuse float64, or the changed values
        return None


class _Rounding(TorchDispatchMode):
    """A mode that changes the last digits of results; of sums, relative to the terms."""

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        stored = {x.untyped_storage().data_ptr() for x in given}
        sums = any(part in str(func) for part in _SUMS)
        terms = max(
            (float((x.abs() if x.is_complex() else x).double().abs().nan_to_num().max()) for x in given if sums and x.numel()),
            default=0.0,
        )

        def changed(x: torch.Tensor) -> torch.Tensor:
            return x if x.untyped_storage().data_ptr() in stored else _perturbed(x, self.seed, terms)

        return pytree.tree_map_only(torch.Tensor, changed, result)


def _perturbed(x: torch.Tensor, seed: int, terms: float = 0.0) -> torch.Tensor:
    if x.is_complex():
        return torch.view_as_complex(_perturbed(torch.view_as_real(x.resolve_conj()), seed, terms))
    step = _STEP.get(x.dtype)
    if step is None:
        return x.clone()
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    noise += noise.sign()  # at least one step: less may round to the same number
    return (x.double() * (1 + step * noise) + terms * step / 10 * noise).to(x.dtype)
