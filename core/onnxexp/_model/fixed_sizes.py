"""Fix dynamic sizes of a finished model, of any exporter's."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxexp._errors import OptionError, summary
from onnxexp._model.constant_nodes import fold_constant_nodes
from onnxexp._model.declared_sizes import SIZES_KEY
from onnxexp._serialize.proto_layout import skeleton
from onnxexp._suggest import nearest
from onnxexp._symbolic_size import SymbolicSize

_READ = 64
"""Elements up to which ONNX's inference gets the contents of an initializer."""
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


def dynamic_sizes(model: ir.Model) -> list[str]:
    """List the names of the sizes of the inputs.

    They include those that only an expression such as ``2*t`` has.
    """
    names: dict[str, None] = {}
    for value in model.graph.inputs:
        for size in _symbols(value):
            names |= dict.fromkeys(size.names())
    return list(names)


def fix_sizes(model: ir.Model, sizes: Mapping[str, int], shapes: Mapping[str, Sequence[int]] | None = None) -> dict[str, int]:
    """Give dynamic sizes of the inputs numbers, in place.

    What becomes constant by that is computed.

    Args:
        model: A model of any exporter.
        sizes: The numbers, by the names of the sizes.
        shapes: Whole shapes of inputs by the inputs' names, for axes without a name.

    Returns the fixed sizes by name.

    Raises OptionError where a name is unknown, or the model has other sizes or does not work at these.
    """
    whole = dict(shapes or {})
    fixed = _named(model, sizes, whole)
    _check_restrictions(model, fixed)
    valid = not _infer(model)
    _bind(model, fixed, whole)
    while True:
        problem = _infer(model)
        if problem and valid:
            wanted = ", ".join(f"{name}={size}" for name, size in {**fixed, **whole}.items())
            raise OptionError(f"the model does not work at {wanted}: {problem}; to fix this, choose sizes that the model takes")
        if not fold_constant_nodes(model):
            break
    RemoveUnusedNodesPass()(model)
    return fixed


def _named(model: ir.Model, sizes: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Check the request; return the sizes by name, those of whole shapes included."""
    fixed, known = dict(sizes), dynamic_sizes(model)
    for name, size in sizes.items():
        if name not in known:
            have = f"its dynamic sizes are {', '.join(known)}" if known else "none of its sizes has a name"
            raise OptionError(
                f"the model has no dynamic size {name!r}{nearest(name, known)}; {have}; to fix this, use one of them"
            )
        if size < 0:
            raise OptionError(f"{name}={size}: a size is not negative; to fix this, give 0 or more")
    inputs = {str(value.name): value for value in model.graph.inputs}
    for name, shape in shapes.items():
        if name not in inputs:
            raise OptionError(
                f"the model has no input {name!r}{nearest(name, inputs)}; to fix this, use one of {', '.join(inputs)}"
            )
        declared = inputs[name].shape
        if declared is None:
            continue
        count = len(declared)
        if count != len(shape):
            raise OptionError(f"input {name} has {count} axes, {declared}; to fix this, give {count} sizes for it")
        for axis, (known_size, given) in enumerate(zip(declared, shape, strict=True)):
            problem = _conflict(known_size, given, fixed, known)
            if problem:
                raise OptionError(f"axis {axis} of input {name} is {problem}, not {given}; to fix this, give the same number")
    for name, shape in shapes.items():
        _check_expressions(inputs[name], shape, fixed)
    return fixed


def _check_expressions(value: ir.Value, shape: Sequence[int], fixed: Mapping[str, int]) -> None:
    """Check that expressions such as ``2*t`` have the given sizes.

    Raises OptionError for another one, and where a name in the expression is not fixed.
    """
    for size, given in zip(value.shape or (), shape, strict=False):
        text = size.value if isinstance(size, ir.SymbolicDim) else None
        names = SymbolicSize(text).names() if text is not None else []
        if text is not None and names and SymbolicSize(text).at(fixed) != given:
            raise OptionError(
                f"input {value.name} has the size {text}, and it is not {given}; to fix this, give {' and '.join(names)}"
            )


def _conflict(size: int | ir.SymbolicDim, given: int, fixed: dict[str, int], known: Sequence[str]) -> str:
    """Fix the size of an axis to a number.

    Returns the size where it is another one already, else "".
    """
    if isinstance(size, int):
        return "" if size == given else str(size)
    if size.value is None or size.value not in known:
        return ""
    other = fixed.setdefault(size.value, given)
    return "" if other == given else f"{size.value}={other}"


def _check_restrictions(model: ir.Model, fixed: Mapping[str, int]) -> None:
    """Check the restrictions that the export has written into the file.

    Raises OptionError where the sizes are outside of them.
    """
    for text in model.metadata_props.get("onnxexp.restrictions", "").split("; "):
        parts = re.split(r" (<=|>=|==|!=|<|>) ", text)
        if len(parts) == 3:
            left, right = (SymbolicSize(part).at(fixed) for part in parts[::2])
            if left is not None and right is not None and not _RELATIONS[parts[1]](left, right):
                raise OptionError(f"the export of this model holds only for {text}; to fix this, choose a size within that")


def _bind(model: ir.Model, fixed: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> None:
    """Put the numbers into all shapes, and into expressions of the sizes."""
    entries = (entry.partition(" = ") for entry in model.metadata_props.pop(SIZES_KEY, "").split("; ") if entry)
    short = {name: SymbolicSize(text).bound(fixed) for name, _, text in entries}
    for value in _values(model):
        if value.shape is not None and any(True for _ in _symbols(value)):
            value.shape = ir.Shape([_bound(size, fixed, short) for size in value.shape])
    for value in model.graph.inputs:
        if str(value.name) in shapes:
            value.shape = ir.Shape(shapes[str(value.name)])
    left = [f"{name} = {size}" for name, size in short.items() if isinstance(size, SymbolicSize)]
    if left:
        model.metadata_props[SIZES_KEY] = "; ".join(left)


def _bound(size: int | ir.SymbolicDim, fixed: Mapping[str, int], short: Mapping[str, SymbolicSize | int]) -> int | str | None:
    if isinstance(size, int) or size.value is None:
        return size if isinstance(size, int) else None
    if isinstance(short.get(size.value), SymbolicSize):
        return size.value
    found = short[size.value] if size.value in short else SymbolicSize(size.value).bound(fixed)
    return found if isinstance(found, int) else found.text


def _infer(model: ir.Model) -> str:
    """Put the sizes that ONNX infers in place of dynamic ones.

    Returns its message where it contradicts the model, else "".
    """
    proto = skeleton(model)
    given = {value.name for value in proto.graph.input}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if name not in given:
            proto.graph.input.append(ir.to_proto(value))
        if tensor is not None and tensor.size <= _READ:
            proto.graph.initializer.append(ir.to_proto(tensor))
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    except Exception as error:  # noqa: BLE001 - onnx raises several classes; the caller decides whether the sizes are to blame
        return summary(error)
    for graph, found in zip(model.graphs(), ir.serde.deserialize_model(inferred).graphs(), strict=False):
        types = {value.name: value for value in _values_of(found)}
        for value in _values_of(graph):
            _take(value, types.get(value.name))
    return next((problem for graph in model.graphs() for node in graph if (problem := _reshape_problem(node))), "")


def _reshape_problem(node: ir.Node) -> str:
    """Describe a Reshape to another number of elements.

    ONNX's inference accepts it.
    """
    if node.op_type != "Reshape" or node.inputs[0] is None:
        return ""
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if before is None or after is None or not (before.is_static() and after.is_static()):
        return ""
    wrong = math.prod(before.numpy()) != math.prod(after.numpy())
    return f"node {node.name} reshapes {before} to {after}, which has another number of elements" if wrong else ""


def _take(value: ir.Value, found: ir.Value | None) -> None:
    if found is None or found.shape is None:
        return
    value.type = value.type or found.type
    if value.shape is None:
        value.shape = found.shape
    elif len(value.shape) == len(found.shape) and any(isinstance(size, ir.SymbolicDim) for size in value.shape):
        pairs = zip(value.shape, found.shape, strict=True)
        value.shape = ir.Shape([new if isinstance(new, int) else old for old, new in pairs])


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from _values_of(graph)


def _values_of(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    for node in graph:
        yield from node.outputs


def _symbols(value: ir.Value) -> Iterator[SymbolicSize]:
    """Yield the sizes of a value that have a text."""
    for size in value.shape or ():
        if isinstance(size, ir.SymbolicDim) and size.value is not None:
            yield SymbolicSize(size.value)
