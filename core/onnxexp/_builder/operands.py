"""Turn an operator's inputs into tensors, and check dtypes against the schema."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxexp._builder.dtypes import dtype_of_number, torch_dtype, type_string, type_text
from onnxexp._builder.onnx_schemas import Formal, Operator
from onnxexp._builder.tensor import STAMP_HINT, GraphBuilder, Tensor
from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._errors import LoweringError

_FALLBACKS = (torch.int64, torch.float32, torch.bool)
"""The dtypes to try for a lone Python number whose own dtype does not fit the operator."""


def bind_type_variables(spec: Operator, given: Sequence[Any], opset: int) -> dict[str, torch.dtype]:
    """Bind the schema's type variables to the dtypes of inputs and Python values.

    Raises LoweringError where the operator does not take a dtype, where inputs of one type variable differ in dtype, and where a
    number shares its type variable with a Tensor of unknown dtype.
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
                f"another input is {bound[formal.variable]}; to fix this, cast one, in a symbolic with op.cast"
            )
    for formal, arg in numbers:
        if formal.variable in unknown and formal.variable not in bound:
            raise LoweringError(
                f"ONNX's {spec.name} takes one dtype for all of {formal.variable}, and that of {unknown[formal.variable]!r} "
                f"is not known, so {arg!r} cannot become a constant; {STAMP_HINT}"
            )
        default = None if formal.variable in bound else _default(formal, arg)
        if default is not None:
            bound[formal.variable] = default
    return bound


def tensors(op: GraphBuilder, spec: Operator, given: Sequence[Any], bound: dict[str, torch.dtype]) -> list[Tensor | None]:
    """Convert the inputs to Tensors.

    Python values take the dtype of their type variable.
    """
    made: list[Tensor | None] = []
    for formal, arg in zip(spec.formals(len(given)), given, strict=False):
        if arg is not None and not isinstance(arg, Tensor):
            arg = constant(op, arg, bound.get(formal.variable) or _default(formal, arg))
        made.append(arg)
    return made


def dtype_of(arg: Any) -> torch.dtype | None:
    """Return the dtype of a Tensor (inferred if needed) or torch.Tensor, else None."""
    if isinstance(arg, Tensor):
        return arg.inferred_dtype
    return arg.dtype if isinstance(arg, torch.Tensor) else None


def type_of(arg: Any) -> str | None:
    """Format the type of a Tensor, sequence or optional as in schemas.

    Returns None for other arguments and for unknown types.
    """
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
    own = torch.int64 if isinstance(arg, (Tensor, list, tuple)) else dtype_of_number(arg)
    return next((dtype for dtype in (own, *_FALLBACKS) if type_string(dtype) in formal.types), None)


def tensor(op: GraphBuilder, arg: Any) -> Tensor:
    """Return a Tensor as it is, and any other argument as a constant of torch's dtype."""
    return arg if isinstance(arg, Tensor) else constant(op, arg, None)


def constant(op: GraphBuilder, value: Any, dtype: torch.dtype | None) -> Tensor:
    """Create a constant, or the concatenation (1-D) of a list with Tensors.

    Raises LoweringError where an integer dtype cannot represent the value exactly.
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
        value = bool(value) if dtype == torch.bool else int(value)
    if dtype is None:
        dtype = torch.int64 if isinstance(value, (list, tuple)) and not value else None
        if isinstance(value, (bool, int, float)):
            dtype = dtype_of_number(value)
    made = torch.tensor(value, dtype=dtype)
    return op.wrap_constant(made.float() if dtype is None and made.dtype == torch.float64 else made)


def _mixed(op: GraphBuilder, elements: Sequence[Any], dtype: torch.dtype) -> Tensor:
    pieces: list[Tensor] = []
    numbers: list[Any] = [each.const.item() if isinstance(each, Tensor) and each.const is not None else each for each in elements]
    for dynamic, run in itertools.groupby(numbers, lambda each: isinstance(each, Tensor)):
        if dynamic:
            pieces += [op.Unsqueeze(op.cast(each, dtype), [0]) if each.rank == 0 else op.cast(each, dtype) for each in run]
        else:
            pieces.append(op.constant(list(run), dtype))
    return pieces[0] if len(pieces) == 1 else op.Concat(*pieces, axis=0)


def result_dtypes(
    spec: Operator, bound: dict[str, torch.dtype], attributes: dict[str, ir.Attr], count: int, opset: int
) -> list[torch.dtype | None]:
    """Determine each output's dtype by type variable, attribute or sole choice.

    Unknown dtypes are None. Raises LoweringError where an attribute requests a dtype that the operator cannot return.
    """
    dtypes: list[torch.dtype | None] = []
    for index in range(count):
        formal = spec.outputs[min(index, len(spec.outputs) - 1)]
        dtype: torch.dtype | None = None
        if formal.variable in bound and formal.homogeneous:
            dtype = bound[formal.variable]
        elif len(formal.types) == 1:
            dtype = _ONLY.get(next(iter(formal.types)))
        if index == 0 and spec.attributes and not all(type_.startswith("seq(") for type_ in formal.types):
            dtype = _dtype_from_attribute(attributes) or dtype or _default_dtype(spec)
        if dtype is not None and type_string(dtype) not in formal.types:
            raise LoweringError(f"ONNX's {spec.name} does not return {dtype} at opset {opset}")
        dtypes.append(dtype)
    return dtypes


def _dtype_from_attribute(attributes: dict[str, ir.Attr]) -> torch.dtype | None:
    """Read the first output's dtype from a dtype attribute or a constant's contents."""
    for name in ("to", "dtype", "output_dtype", "output_datatype"):
        if name in attributes:
            return torch_dtype(attributes[name].value)
    value = attributes["value"].value if "value" in attributes else None
    return value.torch.dtype if isinstance(value, TorchTensor) else None


def _default_dtype(spec: Operator) -> torch.dtype | None:
    """Return the default of the operator's attribute `dtype`."""
    attribute = spec.attributes.get("dtype")
    return torch_dtype(attribute.default) if attribute is not None and attribute.default else None


_ONLY = {"tensor(int64)": torch.int64, "tensor(bool)": torch.bool, "tensor(float)": torch.float32, "tensor(uint8)": torch.uint8}
