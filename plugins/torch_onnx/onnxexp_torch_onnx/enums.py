"""The enumerations of torch.onnx."""

from __future__ import annotations

import enum

from onnxexp import OperatorExportTypes

__all__ = ["ExportTypes", "OperatorExportTypes", "TensorProtoDataType"]


class TensorProtoDataType(enum.IntEnum):
    """The element types of ONNX tensors."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


class ExportTypes(str, enum.Enum):
    """The packings of a model's file in torch 1.x.

    onnxexp writes the first one.
    """

    PROTOBUF_FILE = "Saved model as a protobuf file"
    ZIP_ARCHIVE = "Saved model as a zip archive"
    COMPRESSED_ZIP_ARCHIVE = "Saved model as a compressed zip archive"
    DIRECTORY = "Saved model as a directory"
