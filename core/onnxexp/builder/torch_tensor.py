"""Torch tensors as ONNX tensors, and their bytes without a second copy.

A weight may be huge, and its memory may differ from ONNX's layout: a parameter that was transposed at export is a strided view,
another is on a GPU. `pieces` cuts a tensor into views of bounded size, in the order of its elements. `StagingBuffers` makes one
view after the other contiguous and little endian, without a copy where the memory is so already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxexp.builder.dtypes import to_onnx
from onnxexp.errors import SerializeError

__all__ = ["PIECE", "BinaryWriter", "StagingBuffers", "TorchTensor", "has_data", "pieces"]

PIECE = 1 << 20
"""Bytes of one piece that has to be copied: two such buffers stay in a core's share of the cache."""
_DIRECT = 16 << 20
"""Bytes of one piece that is written straight from the tensor's memory."""
_ROW = 1 << 16
_LINE = 64

_NUMPY = frozenset(
    {torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class BinaryWriter(Protocol):
    """A binary file, or anything with its `write`."""

    def write(self, data: memoryview, /) -> object: ...


class TorchTensor(ir.Tensor[torch.Tensor]):
    """An ONNX tensor over a torch tensor, without a copy until its bytes are read.

    The tensor may be any strided one: a view, on any device, requiring grad, an inference tensor. Sparse ones raise
    `SerializeError`, and dtypes that ONNX does not have raise `TypeError`.
    """

    __slots__ = ()

    def __init__(self, tensor: torch.Tensor, name: str | None = None, doc_string: str | None = None) -> None:
        if tensor.layout != torch.strided:
            raise SerializeError(
                f"ONNX initializers are dense, this tensor has the layout {tensor.layout}: call .to_dense() on it"
            )
        super().__init__(
            tensor, dtype=to_onnx(tensor.dtype), shape=ir.Shape(tuple(tensor.shape)), name=name, doc_string=doc_string
        )

    def pieces(self) -> Iterator[torch.Tensor]:
        """Cut the tensor into pieces in row-major order, each small enough for `StagingBuffers`."""
        return pieces(self.raw, self.name)

    @property
    def torch(self) -> torch.Tensor:
        """The tensor itself."""
        return self.raw

    def numpy(self) -> npt.NDArray[Any]:
        """The elements as an array of ONNX's dtype (`ml_dtypes` has what numpy lacks); shares the memory where it can."""
        return _array(self.raw, self.name).view(self.dtype.numpy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.numpy()
        array = array if dtype is None else array.astype(dtype, copy=False)
        return array.copy() if copy else array

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.raw.detach().__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.raw.__dlpack_device__()

    def tobytes(self) -> bytes:
        """The elements in row-major order, little endian, as ONNX's `raw_data` wants them."""
        if self.nbytes <= PIECE:
            return _array(self.raw, self.name).tobytes()
        scratch = StagingBuffers()
        return b"".join(bytes(scratch.memory(piece)) for piece in self.pieces())

    @property
    def nbytes(self) -> int:
        """The number of bytes, without computing the elements in a subclass."""
        return super().raw.nbytes

    def tofile(self, file: BinaryWriter) -> None:
        """Write what `tobytes` returns, piece by piece."""
        scratch = StagingBuffers()
        for piece in self.pieces():
            file.write(scratch.memory(piece))

    def __repr__(self) -> str:
        return f"TorchTensor<{self.dtype.name},{list(self.raw.shape)}>(name={self.name!r})"


def has_data(tensor: torch.Tensor) -> bool:
    """Whether the tensor has elements in memory; fake and meta tensors have none."""
    return not tensor.is_meta and not isinstance(tensor, torch._subclasses.fake_tensor.FakeTensor)


def pieces(tensor: torch.Tensor, name: str | None = None) -> Iterator[torch.Tensor]:
    """Cut a tensor into views in row-major order, each small enough for `StagingBuffers`.

    Raises:
        SerializeError: The tensor has no data (a fake or meta tensor); the message has `name`.
    """
    tensor = _merged(_readable(tensor, name))
    if tensor.numel() == 0:
        return
    direct = tensor.dim() == 1 and tensor.is_contiguous() and tensor.device.type == "cpu"
    yield from _split(tensor, _DIRECT if direct else PIECE)


class StagingBuffers:
    """Buffers for tensors whose memory differs from the bytes to write. One per thread."""

    def __init__(self) -> None:
        self._packed: npt.NDArray[np.uint8] | None = None
        self._output: npt.NDArray[np.uint8] | None = None

    def memory(self, piece: torch.Tensor) -> memoryview:
        """The bytes of one piece of `pieces`, valid until the next call."""
        piece = _integers(piece)
        if piece.device.type != "cpu":
            piece = piece.cpu()
        if piece.is_contiguous():
            return _memory(piece.numpy())
        return _memory(self._copied(piece))

    def _copied(self, piece: torch.Tensor) -> npt.NDArray[Any]:
        # Both copies below run on this thread alone and without the GIL. Torch's own copies of strided views would start
        # a pool of OpenMP threads for each of our threads; its copy of a whole transposed matrix is serial and the fastest.
        array = piece.numpy()
        if self._output is None:
            self._output = np.empty(PIECE, np.uint8)
        output = _view(self._output, piece)
        if piece.dim() != 2 or piece.stride(0) != 1:
            np.copyto(output, array)
            return output
        if self._packed is None:
            self._packed = np.empty(PIECE, np.uint8)
        packed = _view(self._packed, piece.t())
        np.copyto(packed, array.T)
        torch.from_numpy(output).copy_(torch.from_numpy(packed).t())
        return output


def _readable(tensor: torch.Tensor, name: str | None) -> torch.Tensor:
    _check_data(tensor, name)
    return tensor.detach()


def _check_data(tensor: torch.Tensor, name: str | None) -> None:
    if not has_data(tensor):
        subject = f"initializer {name!r}" if name else "a tensor"
        raise SerializeError(
            f"{subject} ({tensor.dtype}, {list(tensor.shape)}) has no data: it is a fake or meta tensor. "
            "Load the weights before the export, or export with export_params=False."
        )


def _array(tensor: torch.Tensor, name: str | None) -> npt.NDArray[Any]:
    """The elements in numpy's own dtype, or as integers where numpy lacks it; shares the memory where it can."""
    _check_data(tensor, name)
    array: npt.NDArray[Any] = (tensor if tensor.dtype in _NUMPY else _integers(tensor.detach())).numpy(force=True)
    return array


def _integers(tensor: torch.Tensor) -> torch.Tensor:
    tensor = _resolved(tensor)
    return tensor.view(_INTEGERS[tensor.element_size()]) if tensor.element_size() in _INTEGERS else tensor


def _resolved(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with conjugation and negation carried out; in torch they are bits of a view."""
    return tensor.resolve_conj().resolve_neg()


def _merged(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements in the same order with as few dimensions as its strides allow: one where it is contiguous."""
    sizes: list[int] = []
    last_stride = 0
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if size == 1:
            continue
        if sizes and last_stride == stride * size:
            sizes[-1] *= size
        else:
            sizes.append(size)
        last_stride = stride
    return tensor.view(sizes or [1]) if tensor.numel() else tensor


def _split(tensor: torch.Tensor, limit: int) -> Iterator[torch.Tensor]:
    row = math.prod(tensor.shape[1:]) * tensor.element_size()
    if row > limit or (tensor.dim() > 2 and row >= _ROW):
        for part in tensor:
            yield from _split(part, limit)
        return
    rows = limit // row
    # A transposed matrix is read along columns: whole cache lines of them, not pieces of lines.
    line = _LINE // min(tensor.element_size(), _LINE)
    if tensor.dim() == 2 and rows > line:
        rows -= rows % line
    for start in range(0, tensor.shape[0], rows):
        yield tensor[start : start + rows]


def _view(buffer: npt.NDArray[np.uint8], like: torch.Tensor) -> npt.NDArray[Any]:
    """The start of a buffer as an array of the shape and dtype of a tensor."""
    return buffer[: like.nbytes].view(like.numpy().dtype).reshape(tuple(like.shape))


def _memory(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
