"""The inputs of one ONNX operator: Python values made tensors, dtypes checked against the schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onnxexp.dtypes import from_onnx, of_python, type_string
from onnxexp.errors import LoweringError, OpsetError
from onnxexp.schemas import Formal, Operator, history
from onnxexp.values import Tensor

if TYPE_CHECKING:
    from onnxexp.builder import Builder

__all__ = ["constant", "result_dtypes", "tensor", "tensors"]

_FALLBACKS = (torch.int64, torch.float32, torch.bool)
"""What a lone Python number becomes where its own dtype does not fit the operator."""


def tensors(
    op: Builder, spec: Operator, given: Sequence[Any], opset: int
) -> tuple[list[Tensor | None], dict[str, torch.dtype]]:
    """The inputs as Tensors, and the dtype to which each of the schema's type variables is bound.

    Raises:
        LoweringError: two inputs that must have one dtype have two, or no version of the operator takes the dtype.
        OpsetError: another opset's version takes it.
    """
    bound: dict[str, torch.dtype] = {}
    formals = [spec.inputs[min(index, len(spec.inputs) - 1)] for index in range(len(given))]
    for formal, arg in zip(formals, given, strict=True):
        dtype = _dtype_of(arg)
        if dtype is None:
            continue
        if type_string(dtype) not in formal.types:
            _refuse(spec, formal, dtype, opset)
        if formal.homogeneous and bound.setdefault(formal.variable, dtype) != dtype:
            raise LoweringError(
                f"ONNX's {spec.name} takes one dtype for all of {formal.variable}: {formal.name} is {dtype}, "
                f"another input is {bound[formal.variable]}; op.cast brings them together"
            )
    return [_input(op, formal, arg, bound) for formal, arg in zip(formals, given, strict=True)], bound


def _dtype_of(arg: Any) -> torch.dtype | None:
    if isinstance(arg, torch.Tensor):
        return arg.dtype
    if not isinstance(arg, Tensor):
        return None
    if arg.known_dtype is None:
        arg._builder.infer(arg)
    return arg.known_dtype


def _refuse(spec: Operator, formal: Formal, dtype: torch.dtype, opset: int) -> None:
    fits = type_string(dtype)
    for version in history(spec.domain, spec.name):
        index = version.input_index(formal.name)
        if version.since > opset and index is not None and fits in version.inputs[index].types:
            raise OpsetError(
                f"ONNX's {spec.name} takes {dtype} from opset {version.since} on; the target is opset {opset}", version.since
            )
    raise LoweringError(f"ONNX's {spec.name} does not take {dtype} as {formal.name} at opset {opset}")


def _input(op: Builder, formal: Formal, arg: Any, bound: dict[str, torch.dtype]) -> Tensor | None:
    if arg is None or isinstance(arg, Tensor):
        return arg
    dtype = bound.get(formal.variable)
    if dtype is None:
        dtype = _default(formal, arg)
        if dtype is not None and formal.homogeneous:
            bound[formal.variable] = dtype
    return constant(op, arg, dtype)


def _default(formal: Formal, arg: Any) -> torch.dtype | None:
    while isinstance(arg, (list, tuple)) and arg:
        arg = arg[0]
    if isinstance(arg, torch.Tensor):
        return arg.dtype
    own = torch.int64 if isinstance(arg, (Tensor, list, tuple)) else of_python(arg)
    return next((dtype for dtype in (own, *_FALLBACKS) if type_string(dtype) in formal.types), None)


def tensor(op: Builder, arg: Any) -> Tensor:
    """Any argument as a Tensor: itself, or a constant of the dtype that torch would give it."""
    return arg if isinstance(arg, Tensor) else constant(op, arg, None)


def constant(op: Builder, value: Any, dtype: torch.dtype | None) -> Tensor:
    """A constant; a list that holds Tensors becomes their concatenation (1-D).

    Raises LoweringError where the value is not exactly representable as an integer dtype asks.
    """
    if isinstance(value, Tensor):
        return op.cast(value, dtype) if dtype is not None else value
    if isinstance(value, (list, tuple)) and any(isinstance(element, Tensor) for element in value):
        return _mixed(op, value, dtype or torch.int64)
    if isinstance(value, torch.Tensor):
        return op.wrap_constant(value if dtype is None else value.to(dtype))
    if isinstance(value, float) and dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        if dtype != torch.bool and not value.is_integer():
            raise LoweringError(f"the number {value} does not fit into {dtype}; cast the other operand first")
        value = int(value)
    if dtype is None:
        dtype = torch.int64 if isinstance(value, (list, tuple)) and not value else None
        if isinstance(value, (bool, int, float)):
            dtype = of_python(value)
    made = torch.tensor(value, dtype=dtype)
    return op.wrap_constant(made.float() if dtype is None and made.dtype == torch.float64 else made)


def _mixed(op: Builder, elements: Sequence[Any], dtype: torch.dtype) -> Tensor:
    pieces: list[Tensor] = []
    run: list[Any] = []
    for element in elements:
        if isinstance(element, Tensor) and element.const is None:
            if run:
                pieces.append(op.constant(run, dtype))
                run = []
            pieces.append(op.Unsqueeze(op.cast(element, dtype), [0]) if element.rank == 0 else op.cast(element, dtype))
        else:
            run.append(element.const.item() if isinstance(element, Tensor) and element.const is not None else element)
    if run:
        pieces.append(op.constant(run, dtype))
    return pieces[0] if len(pieces) == 1 else op.Concat(*pieces, axis=0)


def result_dtypes(
    spec: Operator, bound: dict[str, torch.dtype], attributes: dict[str, ir.Attr], count: int
) -> list[torch.dtype | None]:
    """The dtype of each output: the one of its type variable, its only possible one, or None (inferred when asked)."""
    dtypes: list[torch.dtype | None] = []
    for index in range(count):
        formal = spec.outputs[min(index, len(spec.outputs) - 1)]
        if formal.variable in bound and formal.homogeneous:
            dtypes.append(bound[formal.variable])
        elif spec.name == "Cast":
            dtypes.append(from_onnx(attributes["to"].value))
        elif len(formal.types) == 1:
            dtypes.append(_ONLY.get(next(iter(formal.types))))
        else:
            dtypes.append(None)
    return dtypes


_ONLY = {"tensor(int64)": torch.int64, "tensor(bool)": torch.bool, "tensor(float)": torch.float32, "tensor(uint8)": torch.uint8}
