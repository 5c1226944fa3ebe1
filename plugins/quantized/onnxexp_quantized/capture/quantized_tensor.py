"""Stand-ins for quantized tensors and packed weights during a capture.

Fake tensors cannot be quantized, so torch.export takes no quantized tensor, and the tracer records none of their parameters. A
stand-in is no tensor itself: it consists of the integers, which are an ordinary tensor, and of the parameters. torch passes each
function that is called with a stand-in to ``__torch_function__``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch

from onnxexp import CaptureError
from onnxexp.frontends import replace_attributes
from onnxexp_quantized.capture.function_table import FunctionTable, name_of


@dataclasses.dataclass(frozen=True)
class Range:
    """The integers of a quantized dtype.

    Attributes:
        dtype: The dtype of the integers.
        lowest, highest: The first and last integer that torch's kernels saturate at.
    """

    dtype: torch.dtype
    lowest: int
    highest: int


DTYPES = {
    torch.quint8: Range(torch.uint8, 0, 255),
    torch.qint8: Range(torch.int8, -128, 127),
    torch.qint32: Range(torch.int32, -(2**31), 2**31 - 1),
    torch.quint4x2: Range(torch.uint8, 0, 15),
    torch.quint2x4: Range(torch.uint8, 0, 3),
}
BY_INTEGERS = {torch.uint8: torch.quint8, torch.int8: torch.qint8, torch.int32: torch.qint32}
"""The quantized dtypes, by the dtype of their integers."""


def decomposed() -> Any:
    """Return the operators of quantized_decomposed, which an import registers."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401

    return torch.ops.quantized_decomposed


class StandIn:
    """An object that torch's functions pass to their implementations.

    Attributes:
        functions: The implementations: those that `implemented_by` was given, outside of a capture none.
    """

    functions: ClassVar[FunctionTable] = FunctionTable()

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return call(func, args, kwargs or {})


class QuantizedTensor(StandIn):
    """A quantized tensor: its integers and their parameters.

    Attributes:
        integers: The integers, as `torch.int_repr` returns them.
        scale: One float, or a tensor: 0-d, or 1-d with an element for each index of `axis`.
        zero_point: An int or a tensor, like `scale`.
        dtype: The quantized dtype: torch.quint8, torch.qint8, torch.qint32, ….
        axis: The channels' axis; None for one scale.
    """

    is_quantized = True

    def __init__(self, integers: torch.Tensor, scale: Any, zero_point: Any, dtype: torch.dtype, axis: int | None = None) -> None:
        self.integers = integers
        self.scale = scale
        self.zero_point = zero_point
        self.dtype = dtype
        self.axis = axis

    @classmethod
    def quantize(cls, x: torch.Tensor, scale: Any, zero_point: Any, dtype: torch.dtype) -> QuantizedTensor:
        """Quantize a float tensor; the parameters are numbers or 0-d tensors.

        Raises CaptureError for the dtype of a tensor that is not quantized.
        """
        if dtype not in DTYPES:
            raise CaptureError(
                f"a quantized operator is called with a tensor of {dtype} that is not quantized; "
                "to fix this, quantize it before that "
                "line (QuantStub), or, if it is an input of the model, make the example one of torch.quantize_per_tensor"
            )
        of = DTYPES[dtype]
        operator = decomposed().quantize_per_tensor
        overload = operator.tensor if isinstance(scale, torch.Tensor) else operator.default
        return cls(overload(x, scale, zero_point, of.lowest, of.highest, of.dtype), scale, zero_point, dtype)

    def like(self, x: torch.Tensor) -> QuantizedTensor:
        """Quantize a float tensor with the parameters of this one."""
        return self.quantize(x, self.scale, self.zero_point, self.dtype)

    @property
    def of(self) -> Range:
        """The range of the integers of the dtype."""
        return DTYPES[self.dtype]

    def numbers(self) -> tuple[float, int]:
        """Return the scale and zero point of a tensor whose parameters are numbers.

        Raises CaptureError if they are tensors.
        """
        if isinstance(self.scale, torch.Tensor) or isinstance(self.zero_point, torch.Tensor):
            raise CaptureError(
                "a function that needs the scale of a quantized tensor as a number is called with one whose scale is computed by "
                "the model; to fix this, dequantize before that line, and quantize after it"
            )
        return self.scale, self.zero_point

    def code(self, value: float) -> int:
        """Return the integer that stands for a number."""
        scale, zero_point = self.numbers()
        return min(max(round(value / scale) + zero_point, self.of.lowest), self.of.highest)

    def with_integers(self, integers: torch.Tensor) -> QuantizedTensor:
        """Return the same parameters with other integers."""
        return QuantizedTensor(integers, self.scale, self.zero_point, self.dtype, self.axis)

    def dequantize(self) -> torch.Tensor:
        """Return the float32 tensor."""
        of, operators = DTYPES[self.dtype], decomposed()
        if self.axis is not None:
            channels = operators.dequantize_per_channel.default
            return channels(self.integers, self.scale, self.zero_point, self.axis, of.lowest, of.highest, of.dtype)
        operator = operators.dequantize_per_tensor
        overload = operator.tensor if isinstance(self.scale, torch.Tensor) else operator.default
        return overload(self.integers, self.scale, self.zero_point, of.lowest, of.highest, of.dtype)

    @property
    def shape(self) -> torch.Size:
        return self.integers.shape

    @property
    def ndim(self) -> int:
        return self.integers.ndim

    @property
    def device(self) -> torch.device:
        return self.integers.device

    @property
    def requires_grad(self) -> bool:
        return False

    @property
    def data(self) -> QuantizedTensor:
        return self

    def __len__(self) -> int:
        return len(self.integers)

    def __iter__(self) -> Iterator[QuantizedTensor]:
        return (self.with_integers(each) for each in self.integers)

    def __getitem__(self, index: Any) -> QuantizedTensor:
        return self.with_integers(self.integers[index])

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of torch.Tensor, bound to this object."""
        attribute = getattr(torch.Tensor, name)
        if callable(attribute):
            return functools.partial(self._method, attribute)
        return type(self).__torch_function__(attribute, (), (self,))

    def _method(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return type(self).__torch_function__(method, (), (self, *args), kwargs)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._method(torch.Tensor.__setitem__, index, value)

    def __eq__(self, other: object) -> Any:
        return self._method(torch.eq, other)

    def __ne__(self, other: object) -> Any:
        return self._method(torch.ne, other)

    def __lt__(self, other: Any) -> Any:
        return self._method(torch.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._method(torch.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._method(torch.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._method(torch.ge, other)

    def __repr__(self) -> str:
        return f"QuantizedTensor({self.dtype}, {list(self.shape)}, scale={self.scale}, zero_point={self.zero_point})"


class PackedWeight(StandIn):
    """The packed parameters of a convolution or linear layer, unpacked.

    The tensors are buffers of the layer's module, so that a capture sees them as parameters of the model.

    Attributes:
        settings: stride, padding, dilation, groups, output_padding and transpose of a convolution.
        reduces_range: Whether its kernel quantizes an input to 7 bits where that is asked for: qnnpack's does not.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        prefix: str,
        weight: QuantizedTensor | None,
        settings: dict[str, Any],
        reduces_range: bool = True,
    ) -> None:
        self._buffers = module._buffers
        self._prefix = prefix
        self._weight = weight
        self.settings = settings
        self.reduces_range = reduces_range

    @property
    def weight(self) -> QuantizedTensor:
        """The quantized weight, made of the module's buffers."""
        old, read = self._weight, self._buffer
        assert old is not None
        scale, zero_point = (old.scale, old.zero_point) if old.axis is None else (read("weight_scale"), read("weight_zero_point"))
        return QuantizedTensor(read("weight"), scale, zero_point, old.dtype, old.axis)

    @property
    def is_half(self) -> bool:
        """Whether the layer is packed in float16."""
        return self._weight is None

    @property
    def half(self) -> torch.Tensor:
        """The float16 weight of a layer that is packed in that width."""
        return self._buffer("weight")

    @property
    def bias(self) -> torch.Tensor | None:
        """The float32 bias."""
        return self._buffers.get(f"{self._prefix}bias")

    def _buffer(self, name: str) -> torch.Tensor:
        buffer = self._buffers[f"{self._prefix}{name}"]
        assert buffer is not None
        return buffer


@dataclasses.dataclass(frozen=True)
class PackedCell:
    """The packed parameters of a recurrent layer for one direction.

    Attributes:
        kind: "quantized_dynamic", or "quantized_fp16".
        input, state: The weights for the input, and for the state before.
        reduce_range: Whether torch quantizes input and state to 7 bits.
    """

    kind: str
    input: PackedWeight
    state: PackedWeight
    reduce_range: bool

    @property
    def biases(self) -> list[torch.Tensor]:
        """The biases for input and state."""
        return [bias for bias in (self.input.bias, self.state.bias) if bias is not None]


def implemented_by(functions: FunctionTable) -> AbstractContextManager[None]:
    """Call torch's functions on stand-ins by this table inside the `with`.

    The table is an attribute of the class: torch calls ``__torch_function__`` on the class, and Dynamo cannot trace a context
    variable. The core captures one model at a time.
    """
    return replace_attributes([(StandIn, "functions", functions)])


def call(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a torch function with quantized tensors among its arguments.

    Raises CaptureError for a function that has no implementation on them.
    """
    name = name_of(func)
    implementation = StandIn.functions.find(name)
    if implementation is None:
        raise CaptureError(
            f"{name} is called with a quantized tensor, and onnxexp-plugin-quantized has no implementation of it; "
            "to fix this, dequantize before that line, and quantize after it"
        )
    if isinstance(kwargs.get("out"), QuantizedTensor) and not name.startswith("quantized::"):
        raise CaptureError(
            f"{name} is called with a quantized tensor as `out`, and torch's operators do not agree on the scale of its result; "
            "to fix this, call it without `out`, and use what it returns"
        )
    return implementation(func, args, kwargs)
