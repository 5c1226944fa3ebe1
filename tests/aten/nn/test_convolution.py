"""nn/convolution.py: every argument in every rank, batches, weights as inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from onnxexp.testing import Case, cases

torch.manual_seed(0)

OPSETS = (9, 22)
X = {1: torch.randn(2, 6, 11), 2: torch.randn(2, 6, 12, 10), 3: torch.randn(2, 6, 5, 6, 7)}
CONV: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED: dict[int, Any] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
ALL = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2, "bias": False}


def dynamic(dims: int) -> dict[int, list[int]]:
    return {0: [0, dims + 1]}


@cases(
    Case(nn.Conv2d(6, 4, 3), X[2], dynamic={0: [0, 2, 3]}, opsets=(*OPSETS, 26), emits={"Conv"}),
    *(
        Case(
            CONV[dims](6, 4, 3, **options), X[dims], dynamic=dynamic(dims), opsets=OPSETS, name=f"conv{dims}d-{'-'.join(options)}"
        )
        for dims in (1, 2, 3)
        for options in ({}, ALL)
    ),
    Case(nn.Conv2d(6, 4, (3, 2), stride=(2, 1), padding=(0, 1)), X[2], opsets=OPSETS),
    *(
        Case(nn.Conv2d(6, 4, kernel, padding="same", dilation=dilation), X[2], dynamic=dynamic(2), opsets=OPSETS, name="same")
        for kernel, dilation in ((3, 2), (4, 1), ((2, 5), (1, 2)))
    ),
    Case(nn.Conv1d(6, 4, 3, padding="valid"), X[1], opsets=OPSETS, emits={"Conv"}),
    *(
        Case(nn.Conv2d(6, 4, 3, padding=2, padding_mode=mode), X[2], dynamic=dynamic(2), opsets=OPSETS, name=mode)
        for mode in ("reflect", "circular", "replicate")
    ),
    *(Case(CONV[dims](6, 4, 3), X[dims][0], dynamic={0: [dims]}, opsets=OPSETS, name=f"unbatched{dims}d") for dims in (1, 2, 3)),
    Case(nn.Conv2d(6, 4, 3).double(), X[2].double(), opsets=OPSETS, rtol=1e-5, atol=1e-5),
    Case(nn.Conv2d(6, 4, 3).half(), X[2].half(), opsets=(9, 22), rtol=1e-2, atol=5e-3),
    Case(torch.conv2d, X[2], torch.randn(4, 6, 3, 3), torch.randn(4), dynamic={0: [0]}, opsets=OPSETS),
    Case(nn.utils.parametrizations.weight_norm(nn.Conv1d(6, 4, 3)), X[1], opsets=(9, 18), emits={"Conv"}),
    Case(lambda x, w, b: torch.conv_tbc(x, w, b, 1), torch.randn(7, 2, 4), torch.randn(3, 4, 5), torch.randn(5), opsets=(9, 18)),
)
def test_conv(check):
    check()


@cases(
    *(
        Case(
            TRANSPOSED[dims](6, 4, 3, **options),
            X[dims],
            dynamic=dynamic(dims),
            opsets=OPSETS,
            name=f"conv_transpose{dims}d-{'-'.join(options)}",
        )
        for dims in (1, 2, 3)
        for options in ({}, {**ALL, "output_padding": 1})
    ),
    *(
        Case(TRANSPOSED[dims](6, 4, 3), X[dims][0], dynamic={0: [dims]}, opsets=OPSETS, name=f"unbatched{dims}d")
        for dims in (1, 2, 3)
    ),
    *(
        Case(
            nn.ConvTranspose2d(6, 4, 3, (3, 2), padding, output_padding=(2, 3), dilation=4, bias=bias),
            X[2][index],
            dynamic={0: [-1]},
            opsets=(9, 20),
            name="output_padding_of_more_than_a_stride",
        )
        for padding, bias, index in (((1, 2), True, slice(None)), ((3, 4), False, 0))
    ),
    Case(nn.ConvTranspose2d(6, 4, 3).double(), X[2].double(), opsets=OPSETS, rtol=1e-5, atol=1e-5),
)
def test_conv_transpose(check):
    check()


def whole(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Call aten::convolution, the form that decomposed programs have."""
    plain = torch.ops.aten.convolution(x, weight, None, [2, 1], [1, 0], [1, 1], False, [0, 0], 1)
    return plain, torch.ops.aten.convolution(x, weight.transpose(0, 1), None, [2, 1], [1, 0], [1, 1], True, [1, 0], 1)


@cases(Case(whole, X[2], torch.randn(4, 6, 3, 3), opsets=(9, 18)))
def test_decomposed(check):
    check()
