"""Shape kernels for composite operators that torch cannot run on fake tensors."""

from __future__ import annotations

import functools

import torch

from onnxexp.capture.torch_export import composite_ops
from onnxexp.capture.torch_export.data_dependent_ops import lstsq

__all__ = ["composite_kernel", "lstsq"]


@functools.lru_cache(maxsize=None)
def composite_kernel(name: str) -> torch._ops.OpOverload | None:
    """Return the operator that computes a composite's output shapes on fake tensors, None where torch's own does.

    `name` is the full name of torch's operator. The operator returned takes the same arguments, but for
    ``_pad_packed_sequence``: the number of sequences comes last.
    """
    own = next((own for own, torchs in composite_ops.NAMES.items() if torchs == name), None)
    if own is None:
        return None
    composite_ops.library()
    packet, _, overload = own.partition("::")[2].partition(".")
    kernel: torch._ops.OpOverload = getattr(getattr(torch.ops.onnxexp, packet), overload or "default")  # by the operator's name
    return kernel
