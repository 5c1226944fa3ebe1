"""complex/inverse_stft.py: windows, lengths and time axes of any size."""

from __future__ import annotations

import pytest
import torch

import onnxexp
from onnxexp.testing import Case, cases

torch.manual_seed(0)

HANN = torch.hann_window(8)
SPECTRUM = torch.stft(torch.randn(2, 40), 8, 4, window=HANN, return_complex=True)


def inverse(z: torch.Tensor) -> torch.Tensor:
    return torch.istft(z, 8, 4, window=HANN.to(z.real.dtype))


def restored(x: torch.Tensor) -> torch.Tensor:
    return torch.istft(torch.stft(x, 8, 4, window=HANN, return_complex=True) * 2, 8, 4, window=HANN)


def inverses(z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ones = torch.ones(5)
    return (
        torch.istft(z, 8),
        torch.istft(z[0], 8, 4, 5, ones, center=True, normalized=True),
        torch.istft(z, 8, 2, 8, torch.ones(8), center=False),
        torch.istft(z, 8, 4, window=HANN, length=30),
        torch.istft(z, 8, 2, window=HANN, length=60),
    )


def case(fn, *inputs: torch.Tensor, name: str = "", **options) -> Case:
    return Case(fn, *inputs, rtol=2e-5, atol=2e-5, name=name or fn.__name__, **options)


@pytest.mark.filterwarnings("ignore:A window was not provided")
@cases(
    case(inverse, SPECTRUM, dynamic={0: [0, 2]}, opsets=(9, 13, 17, 20)),
    case(inverse, SPECTRUM.to(torch.complex128), dynamic={0: [2]}, opsets=(13, 20), name="inverse of float64"),
    case(restored, torch.randn(2, 41), dynamic={0: [0, 1]}, opsets=(9, 13, 20)),
    case(inverses, SPECTRUM, opsets=(9, 20)),
)
def test_istft(check) -> None:
    check()


def as_long_as(x: torch.Tensor) -> torch.Tensor:
    return torch.istft(torch.stft(x, 8, 4, window=HANN, return_complex=True), 8, 4, window=HANN, length=x.shape[-1])


@pytest.mark.parametrize("capture", ["trace", "export"])
def test_a_length_of_the_run_time(capture) -> None:
    program = onnxexp.export(as_long_as, (torch.randn(2, 40),), capture=capture, dynamic_shapes=({0: "n", 1: "time"},))
    for sizes in ((2, 40), (1, 61), (3, 24)):
        torch.testing.assert_close(program(x := torch.randn(sizes)), as_long_as(x), rtol=2e-5, atol=2e-5)


def test_a_traced_spectrum() -> None:
    program = onnxexp.export(inverse, (SPECTRUM,), capture="trace", dynamic_shapes=({2: "time"},))
    torch.testing.assert_close(program(SPECTRUM[..., :7]), inverse(SPECTRUM[..., :7]), rtol=2e-5, atol=2e-5)
