"""Turn PyTorch's operator database (OpInfo) into models."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

DTYPES = ("float32", "int64", "bool", "float64", "float16", "int32", "uint8")

_LEFT_OUT = ("sparse.", "jiterator", "masked.sparse", "to_sparse", "torch.ops.aten._safe_softmax")
"""Excluded: sparse operators (not in ONNX), jiterator (not for CPUs), and an internal operator of torch."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """One call of an operator, computed by `module(*tensors)`."""

    op: str
    dtype: str
    index: int
    module: torch.nn.Module
    tensors: tuple[torch.Tensor, ...]
    quanta: Callable[[Sequence[torch.Tensor]], list[float]] = lambda tensors: []
    """Returns how far each result may be from eager's, for these tensors, where it is rounded to multiples of a quantum."""


class _Call(torch.nn.Module):
    """A call with fixed arguments, except for the tensors."""

    def __init__(self, function: Callable[..., Any], leaves: list[Any], spec: Any, places: list[int]) -> None:
        super().__init__()
        self._function, self._leaves, self._spec, self._places = function, leaves, spec, places

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return self._function(*args, **kwargs)


@functools.cache
def operators() -> dict[str, Any]:
    """Return every OpInfo by its name; a variant follows after a dot."""
    from torch.testing._internal.common_methods_invocations import op_db

    named = ((f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name, info) for info in op_db)
    return {name: info for name, info in named if not name.startswith(_LEFT_OUT)}


def dtypes_of(op: str) -> list[str]:
    """Return the tested dtypes that the operator supports on a CPU."""
    supported = operators()[op].supported_dtypes("cpu")
    return [name for name in DTYPES if getattr(torch, name) in supported]


_MODULES = {
    "fft.": "Fourier transforms",
    "linalg.": "linear algebra",
    "masked.": "masked",
    "nn.functional.": "neural networks",
    "signal.": "signal windows",
    "special.": "special functions",
}
_KINDS = {
    "UnaryUfuncInfo": "elementwise, one input",
    "BinaryUfuncInfo": "elementwise, two inputs",
    "ReductionOpInfo": "reductions",
    "ShapeFuncInfo": "shapes",
    "SpectralFuncInfo": "Fourier transforms",
}


def family_of(op: str) -> str:
    """Return an operator's family, by torch's namespace or its OpInfo's class."""
    by_name = next((family for prefix, family in _MODULES.items() if op.startswith(prefix)), None)
    return by_name or _KINDS.get(type(operators().get(op)).__name__, "other")


def samples(op: str, dtype: str, count: int) -> Iterator[Sample]:
    """Yield the first `count` calls in OpInfo, the same each time."""
    info = operators()[op]
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    for index, call in enumerate(info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=False)):
        if index >= count:
            return
        leaves, spec = pytree.tree_flatten(((call.input, *call.args), call.kwargs))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        tensors = tuple(leaves[place].detach().clone() for place in places)
        if any(tensor.layout is not torch.strided for tensor in tensors):
            continue
        constants = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        yield Sample(op, dtype, index, _Call(info.op, constants, spec, places), tensors)
