"""TorchScript's integer codes of dtypes, layouts and memory formats."""

from __future__ import annotations

from typing import Any

import torch

DTYPES = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32, torch.bfloat16,
    torch.quint4x2, torch.quint2x4, None, None, None, None, None, torch.float8_e5m2, torch.float8_e4m3fn,
    torch.float8_e5m2fnuz, torch.float8_e4m3fnuz, torch.uint16, torch.uint32, torch.uint64,
)  # fmt: skip
"""c10::ScalarType, in order; None for the types that Python's torch does not have."""
_LAYOUTS = (torch.strided, torch.sparse_coo)
MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


class TypeCodes(dict[str, tuple[Any, ...]]):
    """Values by code, by the type of a schema's argument."""

    def of_argument(self, argument: torch.Argument) -> tuple[Any, ...] | None:
        """Return the values by code of an argument that takes codes, else None."""
        return self.get(str(argument.real_type).removeprefix("Optional[").removesuffix("]"))

    def code(self, value: Any) -> Any:
        """Return the code of a dtype, layout or memory format, and other values unchanged."""
        if not isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return value
        return next((values.index(value) for values in self.values() if value in values), value)


TYPE_CODES = TypeCodes(ScalarType=DTYPES, Layout=_LAYOUTS, MemoryFormat=MEMORY_FORMATS)
"""The codes of dtypes, layouts and memory formats: ``TYPE_CODES["ScalarType"][6]`` is torch.float32, and
``TYPE_CODES.code(torch.float32)`` is 6. ``TYPE_CODES.of_argument(argument)`` are the values by code of a schema's argument."""
