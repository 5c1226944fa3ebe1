"""Torch tensors as ONNX tensors, and their bytes without a second copy.

A weight may be huge, and its memory may differ from ONNX's layout: a parameter that was transposed at export is a strided view,
another is on a GPU. `pieces` cuts a tensor into views, in the order of its elements; `contiguous_pieces` copies one view at a
time, and only where its memory is not contiguous already.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxexp._builder.dtypes import onnx_dtype
from onnxexp._errors import SerializeError

_PIECE = 4 << 20
"""Bytes of one piece that has to be copied."""
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class BinaryWriter(Protocol):
    """A binary file, or anything with its `write`."""

    def write(self, data: memoryview, /) -> object: ...


class TorchTensor(ir.tensor_adapters.TorchTensor):
    """An ONNX tensor over a torch tensor, without a copy until its bytes are read.

    The tensor may be any strided one: a view, on any device, requiring grad, an inference tensor. Sparse tensors raise
    `SerializeError`, and dtypes that ONNX lacks raise `TypeError`.
    """

    def __init__(self, tensor: torch.Tensor, name: str | None = None, doc_string: str | None = None) -> None:
        if tensor.layout != torch.strided:
            raise SerializeError(
                f"ONNX initializers are dense, this tensor has the layout {tensor.layout}: call .to_dense() on it"
            )
        onnx_dtype(tensor.dtype)
        super().__init__(tensor, name, doc_string)

    @property
    def stored(self) -> torch.Tensor:
        """The tensor in memory, from which a subclass may compute the elements."""
        return super().raw

    def pieces(self) -> Iterator[torch.Tensor]:
        """Cut the tensor into pieces in row-major order.

        Raises:
            SerializeError: The tensor has no data (a fake or meta tensor); the message has its name.
        """
        _check_data(self.raw, self.name)
        return _split(self.raw.detach())

    def contiguous_pieces(self, transposer: Transposer | None = None) -> Iterator[memoryview]:
        """Generate the bytes of the pieces.

        The bytes of a piece are valid until the next piece is generated, of this or of another tensor with the same `transposer`.
        """
        transposer = transposer or Transposer()
        for piece in self.pieces():
            yield _contiguous_bytes(piece, transposer)

    @property
    def torch(self) -> torch.Tensor:
        """The tensor itself."""
        return self.raw

    def numpy(self) -> npt.NDArray[Any]:
        """Return an array of ONNX's dtype, from numpy or `ml_dtypes`.

        The array shares memory where it can.
        """
        _check_data(self.raw, self.name)
        return super().numpy()

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.raw.detach().__dlpack__(stream=stream)

    def tobytes(self) -> bytes:
        """Return the elements in row-major order, little endian, as in ONNX's `raw_data`."""
        return b"".join(map(bytes, self.contiguous_pieces()))

    @property
    def nbytes(self) -> int:
        """The number of bytes, without computing the elements in a subclass."""
        return self.stored.nbytes

    def tofile(self, file: BinaryWriter) -> None:
        """Write the bytes of `tobytes`, piece by piece."""
        for piece in self.contiguous_pieces():
            file.write(piece)

    def __repr__(self) -> str:
        return f"TorchTensor<{self.dtype.name},{list(self.raw.shape)}>(name={self.name!r})"


def has_data(tensor: torch.Tensor) -> bool:
    """Return whether the tensor has elements in memory, unlike fake and meta tensors."""
    return not tensor.is_meta and not isinstance(tensor, torch._subclasses.fake_tensor.FakeTensor)


class Transposer:
    """Memory in which pieces are transposed one after the other.

    The allocation of new memory for each piece would take a fourth of the time.
    """

    @functools.cached_property
    def _memory(self) -> list[torch.Tensor]:
        return [torch.empty(_PIECE, dtype=torch.uint8) for _ in range(2)]

    def transposed(self, matrix: torch.Tensor) -> torch.Tensor:
        """Copy a piece whose columns are contiguous, row by row.

        The result is valid until the next call. The piece is packed first and then transposed by torch, in blocks. For 64 MiB,
        this takes 0.2 of the time of numpy's strided copy, which would run on this thread too, unlike torch's copy of large
        tensors.
        """
        columns = matrix.t()
        packed, result = (memory[: matrix.nbytes].view(matrix.dtype) for memory in self._memory)
        packed = packed.view(columns.shape)
        np.copyto(packed.numpy(), columns.numpy())
        return result.view(matrix.shape).copy_(packed.t())


def _contiguous_bytes(piece: torch.Tensor, transposer: Transposer) -> memoryview:
    """Return the bytes of one piece, without a copy if its memory has them in order.

    numpy copies on this thread, where torch would start its pool.
    """
    piece = piece.detach().cpu().resolve_conj().resolve_neg()
    piece = piece.view(_INTEGERS.get(piece.element_size(), piece.dtype))
    if piece.dim() == 2 and piece.stride(0) == 1 and not piece.is_contiguous() and piece.nbytes <= _PIECE:
        piece = transposer.transposed(piece)
    return np.ascontiguousarray(piece.numpy()).reshape(-1).view(np.uint8).data


def _check_data(tensor: torch.Tensor, name: str | None) -> None:
    if not has_data(tensor):
        subject = f"initializer {name!r}" if name else "a tensor"
        raise SerializeError(
            f"{subject} ({tensor.dtype}, {list(tensor.shape)}) has no data: it is a fake or meta tensor. "
            "Load the weights before the export, or export with export_params=False."
        )


def _split(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Cut a tensor along its first axes until a piece is contiguous or small."""
    if tensor.nbytes <= _PIECE or (tensor.is_contiguous() and tensor.device.type == "cpu"):
        yield tensor
        return
    if not (rows := _PIECE // tensor[:1].nbytes):
        for row in tensor:
            yield from _split(row)
        return
    for start in range(0, len(tensor), rows):
        yield tensor[start : start + rows]
