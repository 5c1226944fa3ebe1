"""The tensors of the samples, and the forms of samples."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

PARAMETERS = {
    "x": (0.05, 60),
    "y": (0.03, 100),
    "s": (0.05, 60),
    "v": (0.05, 60),
    "m": (0.05, 60),
    "slope": (0.01, 0),
}
"""Scale and zero point of the quantized tensors, the latter for torch.quint8."""


class Operands:
    """Tensors by their names; the names that a sample reads are recorded.

    `x` and `y` are quantized tensors of four axes, `s` of three, `v` of five, `m` a matrix, `slope` one number. `f` is a float
    tensor like `x`, and `index` and `rows` are indices. `w1` to `w3` are the weights of convolutions, `w0` of a linear layer,
    `square` of a convolution that keeps the number of channels, `table` of an embedding, `codes` the same
    quantized, and `b` is a bias.
    """

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self._tensors = tensors
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name not in self._tensors:
            raise AttributeError(name)
        self.read.add(name)
        return self._tensors[name]

    def replaced(self, **tensors: Any) -> Operands:
        """Return the same tensors, except for those given."""
        changed = Operands({**self._tensors, **tensors})
        changed.read = self.read
        return changed


Row = Callable[[Operands], Any]


@dataclasses.dataclass(frozen=True)
class Layer:
    """A sample with packed weights, which a model would store.

    Attributes:
        pack: Returns the packed weights, or a module.
        call: The calculation with them.
        engine: The engine of torch that packs the weights.
        quantum: The quantum of a float result that the kernel rounds; 0 if it does not.
    """

    pack: Row
    call: Callable[[Operands, Any], Any]
    engine: str = "fbgemm"
    quantum: float = 0.0

    def __call__(self, t: Operands) -> Any:
        with engine(self.engine):
            return self.call(t, self.pack(t))


@contextlib.contextmanager
def engine(name: str) -> Iterator[None]:
    """Let torch pack weights for one of its engines."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = name
    try:
        yield
    finally:
        torch.backends.quantized.engine = before


def inputs() -> dict[str, torch.Tensor]:
    """Return the tensors that a model would take as inputs, in float32."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"x": (2, 4, 6, 6), "y": (2, 4, 6, 6), "s": (2, 4, 6), "v": (2, 4, 4, 4, 4), "m": (3, 5), "slope": (1,)}
    tensors = {name: torch.randn(size, generator=generator) * 2 for name, size in sizes.items()}
    tensors["f"] = torch.randn(2, 4, 6, 6, generator=generator)
    return tensors | {"index": torch.tensor([2, 0]), "rows": torch.tensor([[1, 5, 0], [7, 2, 2]])}


def constants() -> dict[str, torch.Tensor]:
    """Return the tensors that a model would store."""
    generator = torch.Generator().manual_seed(1)
    weights = {f"w{axes}": _weight(6, 4, *[3] * axes) for axes in range(4)}
    table = torch.randn(8, 12, generator=generator)
    return weights | {
        "square": _weight(4, 4, 3, 3),
        "transposed": torch.quantize_per_tensor(torch.randn(4, 3, 3, 3, 3, generator=generator), 0.02, 0, torch.qint8),
        "table": table,
        "codes": rows_quantized(table, torch.quint8),
        "b": torch.randn(6, generator=generator),
    }


def rows_quantized(table: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Quantize a table with a float scale and a float zero point for each row."""
    low, high = table.aminmax(dim=1)
    scale = (high - low) / (255 if dtype is torch.quint8 else 15)
    return torch.quantize_per_channel(table, scale, -low / scale, 0, dtype)


def _weight(*size: int) -> torch.Tensor:
    """Draw a weight with a scale for each output channel."""
    values = torch.randn(size, generator=torch.Generator().manual_seed(1))
    scales, zero_points = torch.linspace(0.01, 0.03, size[0]), torch.zeros(size[0], dtype=torch.int64)
    return torch.quantize_per_channel(values, scales, zero_points, 0, torch.qint8)


def quantize(tensors: Mapping[str, torch.Tensor], dtype: torch.dtype) -> dict[str, Any]:
    """Quantize those tensors of a mapping that have parameters."""
    lowest = 0 if dtype is torch.quint8 else -128

    def quantized(name: str, tensor: torch.Tensor) -> Any:
        if name not in PARAMETERS:
            return tensor
        scale, zero_point = PARAMETERS[name]
        return torch.quantize_per_tensor(tensor, scale, zero_point + lowest, dtype)

    return {name: quantized(name, tensor) for name, tensor in tensors.items()}


def written(of: Row) -> Row:
    """Return the result of a function, and the tensor that it wrote to."""

    def row(t: Operands) -> Any:
        target = t.x.clone()
        return of(t.replaced(x=target)), target

    return row


def assign(value: Row, index: Any = 1) -> Row:
    def row(t: Operands) -> Any:
        target = t.x.clone()
        target[index] = value(t)
        return target

    return row
