"""An image as a sequence of patches.

The example also has the tensors that the vision tower would compute in Python.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.vision_utils import get_vision_cu_seqlens, get_vision_position_ids

from onnxexp_transformers.tasks.example_inputs import Example, Sizes, waves

_GRID = (4, 6)  # rows and columns of patches, for the usual blocks of two times two


def patch_sequence(model: Any, sizes: Sizes) -> Example:
    """Return the patches of one image, and their positions.

    The shape of the patches is [patches, values of a patch].
    """
    config = model.config.vision_config
    height, width = (
        size // config.patch_size if size else default for size, default in zip((sizes.height, sizes.width), _GRID, strict=True)
    )
    values = config.in_channels * config.temporal_patch_size * config.patch_size**2
    grid = torch.tensor([[1, height, width]])
    inputs = {
        "pixel_values": waves((height * width, values)).to(model.dtype),
        "image_position_ids": get_vision_position_ids(grid, config.spatial_merge_size),
        "image_cu_seqlens": get_vision_cu_seqlens(grid),
    }
    return Example(inputs, {"pixel_values": {0: "patches"}, "image_position_ids": {0: "patches"}, "image_cu_seqlens": {}})


def grid_of(positions: torch.Tensor) -> torch.Tensor:
    """Return the frames, rows and columns of one image, int64[1, 3].

    The numbers follow from the positions of the image's patches.
    """
    return torch.cat([torch.ones(1, dtype=torch.int64), positions.amax(0) + 1])[None]
