"""The attributes of a program that the checks use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import onnx_ir as ir
import torch

from onnxexp._checking.onnx_slices import OpenSession
from onnxexp._checking.reference_session import ReferenceSession
from onnxexp._errors import OptionError
from onnxexp._model.onnxruntime_session import Prepare, Session
from onnxexp._model.origins import LoweringRecord
from onnxexp._model.signature import Signature
from onnxexp._request.dynamic_shapes import DynamicSpec


class Exported(Protocol):
    """An exported model with its original, see `ONNXProgram`."""

    @property
    def model(self) -> ir.Model: ...

    signature: Signature
    eager: Callable[..., Any] | None
    example: tuple[Sequence[Any], Mapping[str, Any]]
    spec: DynamicSpec | None
    record: LoweringRecord | None
    prepare: Prepare
    weights: dict[str, torch.Tensor]


def opener(backend: str, prepare: Prepare) -> OpenSession:
    """Return the function that loads a model into a backend.

    Raises OptionError for an unknown backend.
    """
    if backend == "onnxruntime":
        return lambda model: Session(model, prepare)
    if backend == "reference":
        return ReferenceSession
    raise OptionError(f"backend is {backend!r}; choose 'onnxruntime' or 'reference' (ONNX's reference evaluator)")
