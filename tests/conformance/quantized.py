"""Turn the samples of quantized operators into models.

PyTorch's operator database has no quantized samples, so the samples are those of the quantized plugin's tests. torch's dispatcher
lists the operators, and records which of them a sample calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.quantized import samples as tables
from tests.quantized.samples.operands import PARAMETERS, Layer, Operands, Row, constants, engine, inputs, quantize

from .samples import Sample

DTYPES = ("quint8", "qint8", "float32")
"""The dtypes of the samples: float32 where no argument is a quantized tensor."""

ROWS: Mapping[str, Row] = {
    f"{name} of {table}, {index}": row
    for table in tables.__all__
    for name, rows in vars(tables)[table].items()
    for index, row in enumerate(rows)
}
"""All samples, by their function, their table and their place in it."""

_UNINITIALIZED = "it returns memory with unknown contents"
_LEGACY = "its argument comes from a function that torch has removed"
UNSAMPLED: Mapping[str, str] = MappingProxyType(
    {
        "aten::_empty_affine_quantized": _UNINITIALIZED,
        "aten::_empty_per_channel_affine_quantized": _UNINITIALIZED,
        "aten::empty.memory_format": _UNINITIALIZED,
        "aten::empty_like": _UNINITIALIZED,
        "aten::empty_quantized": _UNINITIALIZED,
        "aten::empty_strided": _UNINITIALIZED,
        "aten::set_.source_Storage_storage_offset": "it replaces the memory of a tensor",
        "quantized::linear_unpack.legacy": _LEGACY,
        "quantized::linear_unpack_fp16.legacy": _LEGACY,
    }
)
"""The reasons why operators have no samples."""

_REFUSALS = (RuntimeError, NotImplementedError)
"""What torch raises where it has no kernel."""

_NEITHER = (torch.qscheme, torch.dtype, torch.device, type(None))
"""The types of results that are neither tensors nor numbers."""


class _Calculation(torch.nn.Module):
    """A sample as a model: it quantizes its inputs, and dequantizes its results.

    Attributes:
        names: The names of the inputs.
    """

    def __init__(self, row: Row, dtype: torch.dtype) -> None:
        super().__init__()
        self._row, self._dtype = row, dtype
        self.packed: Any = None
        stored = constants()
        everything = Operands({**quantize(inputs(), dtype), **stored})
        if isinstance(row, Layer):
            with engine(row.engine):
                self.packed = row.pack(everything)
            everything.read.clear()
        with contextlib.suppress(*_REFUSALS):  # the judge reports what torch itself cannot run
            self._compute(everything)
        self.names = [name for name in inputs() if name in everything.read]
        self._stored = [name for name in stored if name in everything.read]
        for name in self._stored:
            setattr(self, name, stored[name])

    def quantized(self, tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        return quantize(dict(zip(self.names, tensors, strict=True)), self._dtype)

    def results(self, given: Mapping[str, Any]) -> list[Any]:
        """Compute with quantized inputs, and return tensors and numbers."""
        stored = {name: getattr(self, name) for name in self._stored}  # parameters of the model, while it is captured
        results = self._compute(Operands({**given, **stored}))
        return [each for each in pytree.tree_leaves(results) if not isinstance(each, _NEITHER)]

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return [_plain(each) for each in self.results(self.quantized(tensors))]

    def quanta(self, tensors: Sequence[torch.Tensor]) -> list[float]:
        """Return a quantum for each result."""
        own = self._row.quantum if isinstance(self._row, Layer) else 0.0
        return [_scale(each) if _is_quantized(each) else own for each in self.results(self.quantized(tensors))]

    def _compute(self, t: Operands) -> Any:
        if not isinstance(self._row, Layer):
            return self._row(t)
        with engine(self._row.engine):
            return self._row.call(t, self.packed)


def _plain(result: Any) -> torch.Tensor:
    quantized = getattr(result, "is_quantized", False)  # numbers have no such attribute, stand-ins of the plugin have it
    plain: torch.Tensor = result.dequantize() if quantized else torch.as_tensor(result)
    return plain


def _scale(tensor: torch.Tensor) -> float:
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return tensor.q_scale()
    return float(tensor.q_per_channel_scales().max())


def _is_quantized(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_quantized


@functools.cache
def registered() -> list[str]:
    """List torch's operators for quantized tensors, with their overloads.

    The operators are the namespace `quantized`, and ATen's operators with a kernel of their own for quantized tensors on a CPU.
    """
    schemas = (schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("quantized::"))
    namespace = {f"{schema.name}.{schema.overload_name}".rstrip(".") for schema in schemas}
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    return sorted(namespace | {name for name in names if has_kernel(name, "QuantizedCPU")})


class _Calls(TorchDispatchMode):
    """Records the operators that take or return quantized tensors or packed weights."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        concerned = func.namespace == "quantized" or _has_quantized((args, kwargs))
        if concerned:
            self.names.add(func.name())  # before the call, which may fail
        result = func(*args, **(kwargs or {}))
        if _has_quantized(result):
            self.names.add(func.name())
        return result


def _has_quantized(values: Any) -> bool:
    return any(isinstance(each, torch.ScriptObject) or _is_quantized(each) for each in pytree.tree_leaves(values))


@dataclasses.dataclass(frozen=True)
class _Facts:
    """The operators that a sample calls, and its dtypes."""

    operators: set[str]
    dtypes: tuple[str, ...]


@functools.cache
def _facts() -> dict[str, _Facts]:
    """Run each sample once."""
    found = {}
    for name, row in ROWS.items():
        model = _Calculation(row, torch.quint8)
        given = model.quantized([inputs()[name] for name in model.names])
        with torch.no_grad(), _Calls() as calls, contextlib.suppress(*_REFUSALS):
            model.results(given)
        dtypes = ("quint8", "qint8") if any(name in PARAMETERS for name in model.names) else ("float32",)
        found[name] = _Facts(calls.names, dtypes)
    return found


@functools.cache
def _samples_of() -> dict[str, list[str]]:
    """Return the samples of each operator.

    A sample belongs to the operators with the name of its function, or to all that it calls if none has that name. An operator
    without samples of its own has those that call it.
    """
    found: dict[str, list[str]] = defaultdict(list)
    callers: dict[str, list[str]] = defaultdict(list)
    for name, facts in _facts().items():
        own = {operator for operator in facts.operators if _function(operator) == name.split(" of ")[0]}
        for operator in own or facts.operators:
            found[operator].append(name)
        for operator in facts.operators:
            callers[operator].append(name)
    return {**callers, **found}


def _function(operator: str) -> str:
    return operator.removeprefix("aten::").split(".")[0]


def operators() -> list[str]:
    """Return the operators that have samples."""
    return sorted(_samples_of())


def dtypes_of(op: str) -> list[str]:
    """Return the dtypes of an operator's samples."""
    return [dtype for dtype in DTYPES if any(dtype in _facts()[name].dtypes for name in _samples_of()[op])]


def names_of(op: str) -> list[str]:
    """Return the names of an operator's samples."""
    return _samples_of()[op]


def samples(op: str, dtype: str, count: int) -> Iterator[Sample]:
    """Yield the first `count` samples of an operator."""
    names = [name for name in _samples_of()[op] if dtype in _facts()[name].dtypes]
    for index, name in enumerate(names[:count]):
        yield sample_of(ROWS[name], op, dtype, index)


def sample_of(row: Row, op: str, dtype: str, index: int = 0) -> Sample:
    """Return a sample as a model with its inputs."""
    model = _Calculation(row, torch.quint8 if dtype == "float32" else getattr(torch, dtype)).eval()
    given = inputs()
    return Sample(op, dtype, index, model, tuple(given[name] for name in model.names), model.quanta)
