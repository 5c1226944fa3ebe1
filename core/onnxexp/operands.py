"""The inputs of one ONNX operator: Python values made tensors, dtypes checked against the schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onnxexp.dtypes import from_onnx, of_python, type_string, type_text
from onnxexp.errors import LoweringError
from onnxexp.schemas import Formal, Operator
from onnxexp.tensors import TorchTensor
from onnxexp.values import UNTOLD, Tensor

if TYPE_CHECKING:
    from onnxexp.builder import Builder

__all__ = ["constant", "dtype_of", "dtypes", "result_dtypes", "tensor", "tensors", "type_of"]

_FALLBACKS = (torch.int64, torch.float32, torch.bool)
"""What a lone Python number becomes where its own dtype does not fit the operator."""


def dtypes(spec: Operator, given: Sequence[Any], opset: int) -> dict[str, torch.dtype]:
    """The dtype to which each of the schema's type variables is bound, Python values included.

    Raises LoweringError where the operator does not take one, two inputs that must have one dtype have two, or a number stands
    beside a Tensor of unknown dtype.
    """
    bound: dict[str, torch.dtype] = {}
    unknown: dict[str, Tensor] = {}
    numbers: list[tuple[Formal, Any]] = []
    for formal, arg in zip(spec.formals(len(given)), given, strict=False):
        if arg is None:
            continue
        dtype = dtype_of(arg)
        type_ = type_of(arg) if dtype is None else type_string(dtype)
        if type_ is None:
            if isinstance(arg, Tensor):
                unknown.update({formal.variable: arg} if formal.homogeneous else {})
            elif formal.homogeneous:
                numbers.append((formal, arg))
            continue
        if type_ not in formal.types:
            raise LoweringError(f"ONNX's {spec.name} does not take {dtype or type_} as {formal.name} at opset {opset}")
        if dtype is not None and formal.homogeneous and bound.setdefault(formal.variable, dtype) != dtype:
            raise LoweringError(
                f"ONNX's {spec.name} takes one dtype for all of {formal.variable} at opset {opset}: {formal.name} is {dtype}, "
                f"another input is {bound[formal.variable]}; op.cast brings them together"
            )
    for formal, arg in numbers:
        if formal.variable in unknown and formal.variable not in bound:
            raise LoweringError(
                f"ONNX's {spec.name} takes one dtype for all of {formal.variable}, and nothing tells that of "
                f"{unknown[formal.variable]!r}, so {arg!r} cannot become a constant; {UNTOLD}"
            )
        default = None if formal.variable in bound else _default(formal, arg)
        if default is not None:
            bound[formal.variable] = default
    return bound


def tensors(op: Builder, spec: Operator, given: Sequence[Any], bound: dict[str, torch.dtype]) -> list[Tensor | None]:
    """The inputs as Tensors: Python values become constants of the dtype that their type variable is bound to."""
    made: list[Tensor | None] = []
    for place, arg in enumerate(given):
        if arg is not None and not isinstance(arg, Tensor):
            formal = spec.formals(len(given))[place]
            dtype = bound.get(formal.variable) or _default(formal, arg)
            arg = _shared(op, arg, dtype) if _plain(arg) else constant(op, arg, dtype)
        made.append(arg)
    return made


def _plain(arg: Any) -> bool:
    """Is it a number or a list of ints, as nearly all are that are no Tensors?"""
    return type(arg) in (bool, int, float) or (type(arg) is list and {*map(type, arg)} <= {int})


def _shared(op: Builder, value: Any, dtype: torch.dtype | None) -> Tensor:
    """The constant that a plain value becomes as an operand: made once, since no one but the operator's node sees it."""
    key = (repr(value), dtype)  # 0.0 equals -0.0, and no nan equals itself
    found = op.state.literals.get(key)
    if found is None:
        found = op.state.literals[key] = constant(op, value, dtype)
    return found


def dtype_of(arg: Any) -> torch.dtype | None:
    """The dtype of a Tensor, inferred where need be, or a torch.Tensor; None for all else, and where nothing tells it."""
    if isinstance(arg, Tensor):
        if arg._dtype is None:
            arg._builder.infer(arg)
        return arg._dtype
    return arg.dtype if isinstance(arg, torch.Tensor) else None


def type_of(arg: Any) -> str | None:
    """The type of a Tensor, a sequence or an optional as schemas write it; None where it is not known, or for other arguments."""
    if not isinstance(arg, Tensor):
        return None
    if arg.known_dtype is not None:
        return type_string(arg.known_dtype)
    return None if arg.value.type is None else type_text(arg.value.type)


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
    spec: Operator, bound: dict[str, torch.dtype], attributes: dict[str, ir.Attr], count: int, opset: int
) -> list[torch.dtype | None]:
    """The dtype of each output: of its type variable, of the attribute that says it, the only possible one, or None.

    Raises LoweringError where the operator does not give the dtype that an attribute asks for.
    """
    dtypes: list[torch.dtype | None] = []
    for index in range(count):
        formal = spec.outputs[min(index, len(spec.outputs) - 1)]
        dtype: torch.dtype | None = None
        if formal.variable in bound and formal.homogeneous:
            dtype = bound[formal.variable]
        elif len(formal.types) == 1:
            dtype = _ONLY.get(next(iter(formal.types)))
        if index == 0 and spec.attributes and not formal.is_sequence:
            dtype = _asked(attributes) or dtype or _unasked(spec)
        if dtype is not None and type_string(dtype) not in formal.types:
            raise LoweringError(f"ONNX's {spec.name} does not give {dtype} at opset {opset}")
        dtypes.append(dtype)
    return dtypes


def _asked(attributes: dict[str, ir.Attr]) -> torch.dtype | None:
    """The dtype of the first output where an attribute says it: a dtype, or the contents."""
    if not attributes:
        return None
    for name in ("to", "dtype", "output_dtype", "output_datatype"):
        if name in attributes:
            return from_onnx(attributes[name].value)
    if "value" not in attributes:
        return None
    value = attributes["value"].value
    return value.torch.dtype if isinstance(value, TorchTensor) else None


def _unasked(spec: Operator) -> torch.dtype | None:
    """The dtype that the first output has where no attribute and no input says another."""
    attribute = spec.attributes.get("dtype")
    return from_onnx(attribute.default) if attribute is not None and attribute.default else None


_ONLY = {"tensor(int64)": torch.int64, "tensor(bool)": torch.bool, "tensor(float)": torch.float32, "tensor(uint8)": torch.uint8}
