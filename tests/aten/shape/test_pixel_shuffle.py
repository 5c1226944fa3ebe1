"""shape/pixel_shuffle.py: pixel and channel shuffles, of static and dynamic sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from onnxexp.testing import Case, cases

torch.manual_seed(0)


@cases(
    Case(torch.nn.PixelShuffle(2), torch.randn(2, 8, 3, 4), dynamic={0: [0, 2, 3]}, emits={"DepthToSpace"}),
    Case(torch.nn.PixelShuffle(2), torch.randn(8, 3, 4), dynamic={0: [1, 2]}, name="PixelShuffle3d"),
    Case(torch.nn.PixelShuffle(2), torch.randint(9, (2, 8, 3, 4)), dynamic={0: [0]}, name="PixelShuffleInt"),
    Case(torch.nn.PixelUnshuffle(2), torch.randn(2, 2, 6, 4), dynamic={0: [0]}),
    Case(torch.nn.PixelUnshuffle(2), torch.randn(2, 1, 6, 4), dynamic={0: [0]}, emits={"SpaceToDepth"}, name="PixelUnshuffle1"),
    Case(torch.nn.ChannelShuffle(2), torch.randn(2, 6, 6, 4), dynamic={0: [0]}, emits={"Gather"}),
)
def test_pixels(check):
    check()


PIXELS = torch.arange(2 * 3 * 4 * 6).view(2, 3, 4, 6)


@cases(
    *(
        Case(lambda x, of=of: of(torch.cat([x] * 4, 1), 2), PIXELS, dynamic={0: [1]}, opsets=(9, 13, 20), name=of.__name__)
        for of in (F.channel_shuffle, F.pixel_shuffle, F.pixel_unshuffle)
    )
)
def test_channels_of_run_time(check):
    check()
