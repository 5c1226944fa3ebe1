"""complex/fourier.py, shape/flip_roll_unfold.py: transforms of every kind and length."""

from __future__ import annotations

import pytest
import torch
from torch import fft

from onnxexp.testing import Case, cases

torch.manual_seed(0)
OPSETS = (9, 13, 17, 20)

X = torch.randn(3, 6, 5)
Z = torch.randn(3, 4, dtype=torch.complex64)
LONG = torch.randn(2, 301)
Results = tuple[torch.Tensor, ...]


def case(fn, *inputs: torch.Tensor, name: str = "", **options) -> Case:
    return Case(fn, *inputs, rtol=2e-5, atol=2e-5, name=name or fn.__name__, **{"opsets": OPSETS, **options})


def transforms(x: torch.Tensor) -> Results:
    forth = (
        fft.fft(x),
        fft.rfft(x, dim=1),
        fft.fft2(x, norm="ortho"),
        fft.rfftn(x),
        fft.ihfft(x),
        fft.fft(x, n=9),
        fft.rfft(x, n=3),
    )
    return (*forth, fft.ifft(x), fft.hfft(x), fft.irfft(x, n=7), fft.irfft2(x), fft.fftshift(x), fft.fftn(x, norm="forward"))


def by_name(x: torch.Tensor) -> Results:
    """Call every transform with sizes, dimensions and a norm."""
    z = torch.complex(x, x.flip(0))
    one = [transform(z, n=n, dim=1, norm=norm) for n, norm in ((None, "ortho"), (9, "forward")) for transform in ONE]
    more = [transform(z, s=s, dim=d) for s, d in (((4,), None), ((-1, 7), (0, 2))) for transform in MORE]
    real = [transform(x, norm="forward") for transform in (fft.rfft, fft.ihfft, fft.ihfft2, fft.rfftn, fft.ihfftn, fft.ifftn)]
    halves = [transform(y, norm="ortho") for y in (x, z) for transform in (*HALVES, fft.irfft)]
    return (*one, *more, *real, *halves, *shifted(x), *shifted(z))


def shifted(x: torch.Tensor) -> Results:
    return fft.fftshift(x), fft.ifftshift(x), fft.fftshift(x, dim=1), fft.ifftshift(x, dim=(-1, 0))


ONE = (fft.fft, fft.ifft, fft.hfft, fft.irfft)
MORE = (fft.fftn, fft.ifftn, fft.hfftn, fft.irfftn)
HALVES = (fft.hfft, fft.hfft2, fft.hfftn, fft.irfft2, fft.irfftn)


def there_and_back(x: torch.Tensor) -> Results:
    return fft.irfft(fft.rfft(x), n=x.shape[-1]), fft.ifftn(fft.fftn(x)).real


def back_at_any_length(x: torch.Tensor) -> Results:
    z = fft.rfft(x)
    lengths = (fft.irfft(z, n=x.shape[-1]), fft.irfft(z), fft.irfft(z, n=7), fft.irfft(z, n=2 * x.shape[-1]), fft.hfft(z, n=5))
    return (*lengths, fft.irfft2(z, s=(x.shape[0], 4)), fft.fft(x, n=9), fft.ifft(z, n=x.shape[-1] + 3))


def spectrogram(x: torch.Tensor) -> torch.Tensor:
    return torch.stft(x, 64, hop_length=16, window=torch.hann_window(64), return_complex=True).abs()


def frames(x: torch.Tensor, window: torch.Tensor) -> Results:
    """Compute STFTs of one or several signals, real and complex, by any window."""
    z = torch.complex(x, x.flip(-1))
    one = torch.stft(x[0], 12, return_complex=True), torch.stft(x, 12, 5, 7, normalized=True, return_complex=True)
    other = torch.stft(x, 12, 4, 8, window, center=False, return_complex=True), torch.stft(z, 12, 6, return_complex=True)
    center = torch.ops.aten.stft.center(x, 80, None, None, None, False, "reflect", False, False, True)
    pairs = torch.view_as_real(torch.stft(x, 8, 3, window=window, onesided=False, return_complex=True))
    return *one, *other, center, pairs, torch.ops.aten.stft(x, 8, 3, 8, window, False, True, False)


@pytest.mark.filterwarnings("ignore:A window was not provided")
@cases(
    case(transforms, X),
    case(transforms, X.double(), name="transforms of float64"),
    case(by_name, X),
    case(fft.fft, torch.arange(6), name="fft of ints"),
    case(fft.ifft2, Z),
    case(there_and_back, X),
    case(there_and_back, LONG, name="long"),
    case(back_at_any_length, torch.randn(3, 6), dynamic={0: [0, 1]}, opsets=OPSETS[1:]),
    case(spectrogram, LONG),
    case(spectrogram, LONG, dynamic={0: [0, 1]}, opsets=OPSETS[1:], name="as long as the run time says"),
    case(frames, torch.randn(2, 90), torch.rand(8)),
    case(frames, torch.randn(2, 90).double(), torch.rand(8), name="frames of float64"),
    case(shifted, X, dynamic={0: [0, 1]}, opsets=OPSETS[1:], name="shifted as the run time says"),
    case(transforms, X, dynamic={0: [0, 1]}, opsets=OPSETS[1:], name="lengths of run time"),
    *(case(there_and_back, torch.randn(length), name=f"{length}") for length in (97, 512, 1000)),
)
def test_fourier_transforms(check):
    check()
