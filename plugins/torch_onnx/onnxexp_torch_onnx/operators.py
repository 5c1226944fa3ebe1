"""The names of ``torch.onnx.operators``, which keep shapes dynamic."""

from __future__ import annotations

import torch

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: torch.Tensor) -> torch.Tensor:
    """Return the sizes as a 1-D int64 tensor."""
    if torch.compiler.is_exporting():
        return torch.stack([torch.scalar_tensor(size, dtype=torch.int64) for size in x.shape])
    shape: torch.Tensor = torch._shape_as_tensor(x)
    return shape


def reshape_from_tensor_shape(x: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """Reshape the tensor to the shape that a 1-D tensor contains."""
    if torch._C._get_tracing_state() is not None:
        return torch._reshape_from_tensor(x, shape)
    sizes = shape.tolist()
    for size in sizes:
        torch._check(size >= 0)  # type: ignore[no-untyped-call]
    return x.reshape(sizes)
