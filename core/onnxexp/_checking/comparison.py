"""Compare the outputs of the exported model with the original's.

Tolerances go by dtype, as in `torch.testing.assert_close`, with one difference: the absolute one grows with the largest magnitude
among the expected values, since the rounding errors of a deep model follow the size of its activations and not that of the one
element they end up in. The caller's tolerances are taken as they are. Integers and bools must be equal.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from onnxexp._capture.preserved_model import call_preserved
from onnxexp._errors import VerificationError
from onnxexp._model.notebook_table import notebook_table
from onnxexp._model.printable_text import one_line
from onnxexp._neutral_graph import TensorType
from onnxexp._request.tensor_list import TensorList

Tolerances: TypeAlias = Mapping[torch.dtype, "tuple[float | None, float | None]"]
"""``(rtol, atol)`` by dtype; None leaves the default."""

_TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
    # One unit in the last place: 3 and 2 bits of mantissa.
    torch.float8_e4m3fn: (0.125, 0.125),
    torch.float8_e4m3fnuz: (0.125, 0.125),
    torch.float8_e5m2: (0.25, 0.25),
    torch.float8_e5m2fnuz: (0.25, 0.25),
}
"""(rtol, atol) by dtype; others are exact."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One output of the two models.

    Attributes:
        name: The output's name.
        expected: The type of the original's, ``float32[2, 3]``.
        actual: The type of the exported model's.
        problem: The difference; "" where they agree.
        max_abs: The largest absolute error; 0 for equal values, and for values that cannot be subtracted.
        max_rel: The largest relative error; inf where zero was expected and something else came.
        snr: The ratio of the original's power to the error's, in dB, over the finite values; inf for equal values.
        note: A part that the comparison leaves out, such as the values of random numbers; else "".
    """

    name: str
    expected: str
    actual: str
    problem: str = ""
    max_abs: float = 0.0
    max_rel: float = 0.0
    snr: float = math.inf
    note: str = ""


@dataclasses.dataclass(frozen=True)
class VerificationReport:
    """The comparison of all outputs on one or several inputs.

    The report's text has a line for each output.

    Attributes:
        outputs: The outputs; for several inputs those of each in turn.
        inputs: The inputs in words; "" for those that were given.
        cases: The report on each of several inputs.
        skipped: Inputs that were not compared, with the reason.
    """

    outputs: tuple[Comparison, ...]
    inputs: str = ""
    cases: tuple[VerificationReport, ...] = ()
    skipped: tuple[str, ...] = ()

    @classmethod
    def of(cls, cases: Sequence[VerificationReport], skipped: Sequence[str] = ()) -> VerificationReport:
        """Merge the reports on several inputs."""
        if len(cases) == 1 and not skipped and not cases[0].inputs:
            return cases[0]
        return cls(tuple(output for case in cases for output in case.outputs), "", tuple(cases), tuple(skipped))

    @property
    def ok(self) -> bool:
        """Whether all outputs agree."""
        return not any(output.problem for output in self.outputs)

    @property
    def max_abs(self) -> float:
        """The largest absolute error of all outputs."""
        return max((output.max_abs for output in self.outputs), default=0.0)

    @property
    def max_rel(self) -> float:
        """The largest relative error of all outputs."""
        return max((output.max_rel for output in self.outputs), default=0.0)

    @property
    def snr(self) -> float:
        """The lowest signal-to-noise ratio of all outputs, in dB."""
        return min((output.snr for output in self.outputs), default=math.inf)

    def raise_for_difference(self) -> None:
        """Raise VerificationError listing every output that differs, if one does.

        The error's `report` is this report.
        """
        failed = [case for case in self.cases or (self,) if not case.ok]
        if not failed:
            return
        problems = []
        for case in failed:
            wrong = [output for output in case.outputs if output.problem]
            where = f"where {case.inputs}: " if case.inputs else ""
            problems.append(
                f"{where}the exported model disagrees with the original in {len(wrong)} of {len(case.outputs)} outputs:"
            )
            problems += [f"  {one_line(output.name)}: {output.problem}" for output in wrong]
        error = VerificationError("\n".join(problems))
        error.report = self
        raise error

    def __str__(self) -> str:
        lines = []
        for case in self.cases or (self,):
            agreeing = sum(not output.problem for output in case.outputs)
            where = f"{case.inputs}: " if case.inputs else ""
            lines.append(f"{where}{agreeing} of {len(case.outputs)} outputs agree with the original")
            for output in case.outputs:
                fine = f"{output.actual}, max abs error {output.max_abs:.3g}, max rel error {output.max_rel:.3g}"
                fine += f", SNR {output.snr:.0f} dB" if math.isfinite(output.snr) else ""
                lines.append(
                    f"  {one_line(output.name)}: {output.problem or fine}" + (f" ({output.note})" if output.note else "")
                )
        lines += [f"not compared: {text}" for text in self.skipped]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cases = self.cases or (self,)
        rows = [
            (case.inputs, output.name, output.actual, output.problem or output.note or "agrees", f"{output.max_abs:.3g}",
             f"{output.max_rel:.3g}")
            for case in cases
            for output in case.outputs
        ]  # fmt: skip
        agreeing = sum(not output.problem for case in cases for output in case.outputs)
        title = f"{agreeing} of {len(rows)} outputs agree with the original"
        columns = ("inputs", "output", "type", "result", "max abs error", "max rel error")
        return notebook_table(title, columns, rows, "\n".join(f"not compared: {text}" for text in self.skipped))


class _Unfused(TorchFunctionMode):
    """The mode that keeps torch's modules off their fused inference paths.

    The fused paths leave other values at padded positions. Modules avoid them while a mode is active, which belongs to the
    thread.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def run_eager(eager: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run the original on copies of its inputs and buffers."""
    copies: dict[int, torch.Tensor] = {}

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, TensorList):
            return list(map(copy, leaf))
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in copies:  # one tensor that is given twice stays one
            copies[id(leaf)] = leaf.detach().clone()
        return copies[id(leaf)]

    arguments: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(copy, (tuple(args), dict(kwargs)))
    with torch.no_grad(), _Unfused():
        if isinstance(eager, torch.nn.Module):
            return call_preserved(eager, *arguments)
        return eager(*arguments[0], **arguments[1])


def compare(
    expected: Any,
    actual: Any,
    names: Sequence[str],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: Tolerances | None = None,
    random: Collection[str] = (),
) -> VerificationReport:
    """Compare two results, leaf by leaf.

    Args:
        expected: The original's result, in any structure.
        actual: The exported model's result, in the same structure.
        names: A name per leaf of `actual`.
        rtol: Relative tolerance, by dtype where None.
        atol: Absolute tolerance, by dtype and magnitude where None.
        tolerances: ``(rtol, atol)`` by dtype, in place of the defaults.
        random: The names of outputs that depend on random numbers: dtype and shape are compared, values are not.

    Raises:
        VerificationError: the structures differ.
    """
    wanted, got = pytree.tree_leaves(expected), pytree.tree_leaves(actual)
    if len(wanted) != len(got):
        raise VerificationError(f"the original returns {len(wanted)} values at these inputs, the exported model {len(got)}")
    compared = []
    for name, one, other in zip(names, wanted, got, strict=True):
        by_dtype = (tolerances or {}).get(one.dtype, (None, None)) if isinstance(one, torch.Tensor) else (None, None)
        allowed = (by_dtype[0] if rtol is None else rtol, by_dtype[1] if atol is None else atol)
        if name in random and isinstance(one, torch.Tensor) and type_name(one) == type_name(other):
            compared.append(Comparison(name, type_name(one), type_name(other), note="random values, not compared"))
        else:
            compared.append(_compared(name, one, other, *allowed))
    return VerificationReport(tuple(compared))


def _compared(name: str, expected: Any, actual: Any, rtol: float | None, atol: float | None) -> Comparison:
    types = type_name(expected), type_name(actual)
    if types[0] != types[1]:
        return Comparison(name, *types, f"expected {types[0]}, got {types[1]}")
    if isinstance(expected, float):
        # The graph computes Python floats as float32.
        expected, actual = (torch.tensor(number, dtype=torch.float32) for number in (expected, actual))
    if not isinstance(expected, torch.Tensor):
        return Comparison(name, *types, "" if expected == actual else f"expected {expected!r}, got {actual!r}")
    if expected.numel() == 0:
        return Comparison(name, *types)
    if expected.is_sparse or expected.is_quantized:
        expected, actual = (each.dequantize() if each.is_quantized else each.to_dense() for each in (expected, actual))
    return _values(name, types, expected.detach().cpu(), actual.detach().cpu(), rtol, atol)


def _values(
    name: str, types: tuple[str, str], expected: torch.Tensor, actual: torch.Tensor, rtol: float | None, atol: float | None
) -> Comparison:
    """Compare two tensors of one type, value by value."""
    errors = _errors(expected, actual)
    default = _TOLERANCES.get(expected.dtype, (0.0, 0.0))
    rtol = default[0] if rtol is None else rtol
    atol = default[1] * max(1.0, errors.largest) if atol is None else atol
    max_abs, max_rel, snr = float(errors.error.max()), errors.max_rel(), errors.snr()
    if errors.unequal is None and max_abs <= atol:  # most tensors: no need to look at each element
        return Comparison(name, *types, "", max_abs, max_rel, snr)
    allowed = errors.magnitude.mul(rtol).add_(atol)
    if errors.unequal is None:
        off = errors.error > allowed
    else:
        # Infinite where both are: no relative tolerance allows an error against an expected infinity.
        allowed.nan_to_num_(nan=0.0, posinf=0.0)
        # Without a tolerance unequal values differ, also 64-bit integers that are equal as float64.
        off = errors.unequal & ((errors.error > allowed) | (rtol == atol == 0))
    problem = ""
    if off.any():
        worst = int((errors.error / allowed).nan_to_num_(nan=0.0, posinf=torch.inf).masked_fill_(~off, -1.0).argmax())
        index = [int(position) for position in torch.unravel_index(torch.tensor(worst), expected.shape)]
        problem = (
            f"{types[0]}, {int(off.sum())} of {off.numel()} elements are off by more than rtol={rtol:.3g}, atol={atol:.3g}; "
            f"the worst, at {index}: expected {_number(expected, worst)}, got {_number(actual, worst)} "
            f"(max abs error {max_abs:.3g}, max rel error {max_rel:.3g}){_not_finite(expected, actual, errors)}"
        )
    return Comparison(name, *types, problem, max_abs, max_rel, snr)


@dataclasses.dataclass(frozen=True)
class _Errors:
    """The errors of a tensor.

    Attributes:
        magnitude: The absolute values of the original.
        error: The absolute errors; infinite where only one side is NaN.
        largest: The largest finite magnitude.
        unequal: Where the two differ; None where all values are finite, and they differ where the error is not 0.
    """

    magnitude: torch.Tensor
    error: torch.Tensor
    largest: float
    unequal: torch.Tensor | None = None

    def max_rel(self) -> float:
        """Compute the largest relative error."""
        relative = self.error / self.magnitude
        if self.unequal is None:  # only 0 / 0 is NaN
            return float(relative.nan_to_num_(nan=0.0, posinf=torch.inf).max())
        return float(relative.masked_fill_(self.error == 0, 0.0).nan_to_num_(nan=torch.inf, posinf=torch.inf).max())

    def snr(self) -> float:
        """Compute the power of the finite values over that of their errors, in dB."""
        parts = [self.magnitude, self.error]
        if self.unequal is not None:
            others = ~(self.magnitude.isfinite() & self.error.isfinite())
            parts = [each.masked_fill(others, 0.0) for each in parts]
        signal, noise = map(_norm, parts)
        return math.inf if noise == 0 else -math.inf if signal == 0 else 20 * math.log10(signal / noise)


def _norm(tensor: torch.Tensor) -> float:
    """Compute the norm in float64, in parts: torch copies what it converts."""
    parts = torch.split(tensor.reshape(-1), 1 << 16)
    return math.hypot(*(float(torch.linalg.vector_norm(part, dtype=torch.float64)) for part in parts))


def _errors(expected: torch.Tensor, actual: torch.Tensor) -> _Errors:
    """Measure the errors of a tensor.

    Finite floats are compared in their own precision, at least float32. Other values are compared in float64, which takes three
    times as long.
    """
    if expected.is_floating_point():
        precision = max(expected.dtype, torch.float32, key=lambda dtype: dtype.itemsize)
        one, other = expected.to(precision), actual.to(precision)
        magnitude, error = one.abs(), (other - one).abs_()
        largest = float(magnitude.max())
        if math.isfinite(largest) and math.isfinite(float(error.max())):
            return _Errors(magnitude, error, largest)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    one, other = expected.to(wide), actual.to(wide)
    magnitude = one.abs()
    # NaN equals NaN, and 64-bit integers keep all bits.
    floats = expected.is_floating_point() or expected.is_complex()
    equal = (one == other) | (one.isnan() & other.isnan()) if floats else expected == actual
    error = (other - one).abs().masked_fill_(equal, 0.0).nan_to_num_(nan=torch.inf, posinf=torch.inf)
    return _Errors(magnitude, error, float(magnitude.masked_fill(~magnitude.isfinite(), 0.0).max()), ~equal)


def _not_finite(expected: torch.Tensor, actual: torch.Tensor, errors: _Errors) -> str:
    """Count the NaN and infinities of both tensors where they have different ones."""
    if errors.unequal is None:
        return ""
    counts = [
        f"{int(of(actual).sum())} {name} where the original has {int(of(expected).sum())}"
        for name, of in (("NaN", torch.isnan), ("infinities", torch.isinf))
        if not torch.equal(of(expected), of(actual))
    ]
    return f"; {', '.join(counts)}" if counts else ""


def _number(tensor: torch.Tensor, position: int) -> str:
    value = tensor.reshape(-1)[position].item()
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def type_name(value: Any) -> str:
    """Format a tensor's type as ``float32[2, 3]``, or name another value's class."""
    return str(TensorType(value.dtype, tuple(value.shape))) if isinstance(value, torch.Tensor) else type(value).__name__
