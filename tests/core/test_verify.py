"""The comparison with the original: equality, and reports of differences."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from onnxexp._checking.comparison import compare, run_eager
from onnxexp._errors import OnnxExporterError, VerificationError
from onnxexp._program.program import ONNXProgram
from tests.core.test_program import ADD, numbers, program

INF, NAN = math.inf, math.nan


def agrees(expected: Any, actual: Any, **tolerances: float) -> bool:
    return compare([expected], [actual], ["y"], **tolerances).ok


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]
)
def test_tolerance_by_dtype(dtype: torch.dtype) -> None:
    rounding = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float32: 1e-6, torch.complex64: 1e-6}.get(dtype, 1e-8)
    ones = torch.ones(4, dtype=dtype)
    assert agrees(ones, ones * (1 + rounding))
    assert not agrees(ones, ones * (1 + 100 * rounding))


def test_absolute_tolerance_follows_the_magnitude() -> None:
    assert not agrees(numbers(0, 1), numbers(5e-4, 1))
    assert agrees(numbers(0, 100), numbers(5e-4, 100))
    assert not agrees(numbers(0, 100), numbers(5e-4, 100), atol=1e-5)
    assert not agrees(numbers(0, INF), numbers(5e-4, INF))


@pytest.mark.parametrize(
    ("expected", "actual", "equal"),
    [
        (numbers(NAN, INF, -INF), numbers(NAN, INF, -INF), True),
        (numbers(1, 2), numbers(1, NAN), False),
        (numbers(NAN, 2), numbers(1, 2), False),
        (numbers(INF, 2), numbers(1e30, 2), False),
        (numbers(INF, 2), numbers(-INF, 2), False),
        (numbers(1, 2), numbers(1, INF), False),
        (torch.tensor([2**60]), torch.tensor([2**60 + 1]), False),
        (torch.tensor([2**63], dtype=torch.uint64), torch.tensor([2**63], dtype=torch.uint64), True),
        (torch.tensor([2**63], dtype=torch.uint64), torch.tensor([2**63 + 1], dtype=torch.uint64), False),
        (torch.tensor([True]), torch.tensor([False]), False),
        (torch.ones(2).to(torch.float8_e4m3fn), torch.tensor([1, 1.125]).to(torch.float8_e4m3fn), True),
        (torch.zeros(0, 3), torch.zeros(0, 3), True),
        (torch.zeros(0, 3), torch.zeros(0, 4), False),
        (torch.tensor(1.0), torch.tensor(1.0).double(), False),
        (torch.ones(1), torch.ones(()), False),
        (1.0, 1.0000001, True),
        (1.0, 1.1, False),
        (3, 3, True),
        (3, 4, False),
        (3, 3.0, False),
        (None, None, True),
        (None, torch.ones(1), False),
        ("a", "b", False),
    ],
)
def test_equality(expected: Any, actual: Any, equal: bool) -> None:
    assert agrees(expected, actual) is equal


def test_error_lists_every_differing_output() -> None:
    expected = (numbers(1, 2, 3, 4).reshape(2, 2), numbers(5), torch.tensor([1]), numbers(6))
    actual = (numbers(1, 2.5, 3, 4.5).reshape(2, 2), numbers(5), torch.tensor([1.0]), numbers(6, 6))
    report = compare(expected, actual, ["left", "fine", "kind", "size"])
    assert not report.ok and report.max_abs == 0.5 and report.max_rel == 0.25
    with pytest.raises(VerificationError) as caught:
        report.raise_for_difference()
    assert str(caught.value) == (
        "the exported model disagrees with the original in 3 of 4 outputs:\n"
        "  left: float32[2, 2], 2 of 4 elements are off by more than rtol=1.3e-06, atol=4e-05; "
        "the worst, at [0, 1]: expected 2, got 2.5 (max abs error 0.5, max rel error 0.25)\n"
        "  kind: expected int64[1], got float32[1]\n"
        "  size: expected float32[1], got float32[2]"
    )
    assert str(report).splitlines()[0] == "1 of 4 outputs agree with the original"
    assert "  fine: float32[1], max abs error 0, max rel error 0" in str(report)


@pytest.mark.parametrize(
    ("expected", "actual", "max_rel"), [((0, 2), (0, 2), 0.0), ((0, 2), (0, 3), 0.5), ((0, 2), (1, 2), math.inf)]
)
def test_the_relative_error_of_zero_is_zero_or_infinite(expected: Any, actual: Any, max_rel: float) -> None:
    assert compare(numbers(*expected), numbers(*actual), ["x"]).max_rel == max_rel


def test_the_signal_to_noise_ratio_of_a_large_tensor() -> None:
    expected = torch.full((3, 100_000), 1e30)
    (output,) = compare(expected, expected * (1 + 1e-3), ["x"]).outputs
    assert abs(output.snr - 60) < 0.1


def test_other_structure() -> None:
    with pytest.raises(VerificationError, match="returns 2 values at these inputs, the exported model 1"):
        compare((numbers(1), numbers(2)), numbers(1), ["y"])


def adding(forward: Any) -> ONNXProgram:
    """Build a program that adds, to be compared with `forward`."""
    exported = program(ADD, lambda a, b: a + b, numbers(1), numbers(2), feeds={"a": 0, "b": 1})
    exported.eager = forward
    return exported


def test_program_against_its_original() -> None:
    exported = adding(lambda a, b: a + b)
    assert exported.verify().ok
    assert exported.verify((numbers(1, 2), numbers(3, 4))).outputs[0].actual == "float32[2]"
    assert exported.verify(kwargs={"b": numbers(1), "a": numbers(3)}).ok
    exported.eager = lambda a, b: a + b + (a > 2) * 0.01
    assert exported.verify().ok
    with pytest.raises(VerificationError, match=r"c: .* at \[1\]: expected 4.01, got 4"):
        exported.verify((numbers(1, 3), numbers(1, 1)))
    assert exported.verify((numbers(1, 3), numbers(1, 1)), rtol=0, atol=0.011).ok
    exported.eager = None
    with pytest.raises(OnnxExporterError, match="without an original"):
        exported.verify()


class Counter(torch.nn.Module):
    """Writes to its inputs, to one buffer, and replaces another."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last = a.clone()
        return a.add_(b)


@pytest.mark.parametrize("script", [False, True])
def test_the_original_and_its_inputs_are_as_before(script: bool) -> None:
    module = torch.jit.script(Counter()) if script else Counter()
    a, b = numbers(1), numbers(2)
    assert adding(module).verify((a, b)).ok
    assert a.tolist() == [1] and module.calls.item() == 0
    assert script or module.last.tolist() == [0]


def test_one_tensor_given_twice_stays_one() -> None:
    tensor = numbers(1)
    assert run_eager(lambda a, b: a.add_(1) + b, (tensor, tensor), {}).tolist() == [4]
    assert tensor.tolist() == [1]


def test_no_gradients_and_no_fused_paths() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1).eval()
    x, padding = torch.randn(2, 3, 8), torch.tensor([[False, False, True], [False, True, True]])
    expected = encoder(x, src_key_padding_mask=padding)
    result = run_eager(encoder, (x,), {"src_key_padding_mask": padding})
    assert expected.requires_grad and not result.requires_grad
    torch.testing.assert_close(result, expected.detach())
