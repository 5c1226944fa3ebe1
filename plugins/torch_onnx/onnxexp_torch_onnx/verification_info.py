"""`verify_onnx_program`, which measures the differences of a program."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from onnxexp.checking import find_mismatch
from onnxexp_torch_onnx.onnx_program import ONNXProgram
from onnxexp_torch_onnx.testing import original_results, real_form

__all__ = ["VerificationInfo", "verify_onnx_program"]

_EDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6)
"""The edges of the histograms."""
_NEAR_ZERO = 1e-7
"""What is added to the expected values before a division by them."""


@dataclasses.dataclass
class VerificationInfo:
    """The differences of one value between torch and ONNX.

    Attributes:
        name: The value's name.
        max_abs_diff, max_rel_diff: The largest absolute and relative difference; infinite for an empty tensor or another shape.
        abs_diff_hist, rel_diff_hist: Histograms of the differences, as counts and edges.
        expected_dtype, actual_dtype: The dtypes of the two.
    """

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[torch.Tensor, torch.Tensor]
    rel_diff_hist: tuple[torch.Tensor, torch.Tensor]
    expected_dtype: torch.dtype
    actual_dtype: torch.dtype

    @classmethod
    def from_tensors(cls, name: str, expected: Any, actual: Any) -> VerificationInfo:
        """Compare two tensors, or Python numbers."""
        one, other = (torch.as_tensor(each).detach().cpu() for each in (expected, actual))
        absolute, relative = _differences(one, other)
        edges = torch.tensor(_EDGES)
        counts = [torch.histogram(each.float().flatten(), bins=edges) for each in (absolute, relative)]
        return cls(
            name=name,
            max_abs_diff=float(absolute.max()),
            max_rel_diff=float(relative.max()),
            abs_diff_hist=(counts[0][0], counts[0][1]),
            rel_diff_hist=(counts[1][0], counts[1][1]),
            expected_dtype=one.dtype,
            actual_dtype=other.dtype,
        )

    def asdict(self) -> dict[str, Any]:
        """Return the fields, with lists and texts in the place of tensors and dtypes."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [each.tolist() for each in value]
    return str(value) if isinstance(value, torch.dtype) else value


def _differences(one: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the absolute and the relative difference of each element."""
    one = real_form(one)
    if one.numel() == 0 or one.shape != other.shape:
        return torch.tensor(math.inf), torch.tensor(math.inf)
    wide = torch.float32 if one.dtype == torch.bool else torch.promote_types(one.dtype, other.dtype)
    absolute = (one.to(wide) - other.to(wide)).abs()
    return absolute, absolute / (one.to(wide).abs() + _NEAR_ZERO)


def verify_onnx_program(
    onnx_program: ONNXProgram,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    compare_intermediates: bool = False,
) -> list[VerificationInfo]:
    """Measure the differences between the original and the model in ONNX Runtime.

    Args:
        onnx_program: The result of an export.
        args, kwargs: The arguments of the call; None is the example of the export.
        compare_intermediates: Also measure the result of each operator, computed by torch from the inputs that ONNX has there.

    Returns:
        The differences of each output, after those of the operators.

    Raises what a call of the program raises.
    """
    given, named, expected = original_results(onnx_program, args, kwargs)
    found = list(_intermediates(onnx_program, given, named)) if compare_intermediates else []
    names = [str(value.name) for value in onnx_program.model.graph.outputs]
    results = zip(names, expected, onnx_program(*given, **named), strict=True)
    return [*found, *(VerificationInfo.from_tensors(*each) for each in results)]


def _intermediates(program: ONNXProgram, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[VerificationInfo]:
    for node in find_mismatch(program, args, kwargs, keep_values=True).nodes:
        for _, expected, actual in node.values:
            yield VerificationInfo.from_tensors(node.name, expected, actual)
