"""Adapt the user's example inputs to torch.export.

torch.export cannot make an axis of size 0 or 1 dynamic (torch 2.13): it refuses Dim and Dim.DYNAMIC, silently makes Dim.AUTO
static, and with `backed_size_oblivious` it may specialise the size later (a TransformerEncoderLayer gets a static result).
Therefore dynamic axes are captured at size 2 or more.

    with adapted_inputs(model, args, kwargs, spec) as (args, kwargs):
        torch.export.export(model, args, kwargs, dynamic_shapes=spec.shapes, ...)
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._capture.torch_state import replace_attributes
from onnxexp._request.axis_spec import Axis
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._request.tensor_list import TensorList


@contextlib.contextmanager
def adapted_inputs(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield the inputs for torch.export, with an adapted `forward` meanwhile.

    Axes are enlarged (see `enlarge`). The tensors are new objects on the same memory: torch.export marks dynamic axes by
    attributes. A dynamic float or bool becomes a 0-d tensor, and `forward` receives its ``.item()``: torch accepts dynamic
    numbers of type int only. The tensor is float64 if an input tensor is, else float32. Entries of ``**kwargs`` become named
    parameters, since torch cannot match dynamic shapes to ``**kwargs``. `forward` is replaced on the instance and restored at
    the end: see `private_model` for other threads that use it.
    """
    items = [index for index in spec.scalars if type(spec.leaves[index].value) is not int]
    args, kwargs = pytree.tree_map_only(torch.Tensor, _alias, enlarge(args, kwargs, spec))
    if items:
        flat, structure = pytree.tree_flatten((args, kwargs))
        wide = any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 for leaf in flat)
        for index in items:
            dtype = torch.bool if type(flat[index]) is bool else torch.float64 if wide else torch.float32
            flat[index] = torch.tensor(flat[index], dtype=dtype)
        args, kwargs = pytree.tree_unflatten(flat, structure)
    signature = inspect.signature(model.forward)
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    if not items and not (open_ended and spec.shapes is not None):
        yield tuple(args), dict(kwargs)
        return
    with replace_attributes([(model, "forward", _adapted(model.forward, _closed(signature, kwargs), items))]):
        yield tuple(args), dict(kwargs)


def enlarge(args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Enlarge every axis that must be dynamic to size 2 or more.

    A smaller axis gets the size of the axes of the same name, or, without a name, the size that all other dynamic axes at its
    position share, else 2. The tensor is repeated along the axis; an empty one is filled with zeros. Axes of one Dim change
    together, derived ones too. An axis that is one longer than another (``past + 1``) grows with an axis of size 1.

    A tensor that occurs twice becomes two tensors that share memory: torch.export marks dynamic axes on the tensor object, and
    identifies outputs that are inputs by it. Unchanged inputs are returned as they are.
    """
    flat, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    seen: set[int] = set()
    new = []
    for tensor, sizes in zip(flat, _sizes(flat, spec), strict=True):
        for axis, size in sizes.items():
            tensor = resize_example(tensor, axis, size)
        if isinstance(tensor, torch.Tensor) and id(tensor) in seen:
            tensor = _alias(tensor)
        seen.add(id(tensor))
        new.append(tensor)
    return pytree.tree_unflatten(new, structure)  # type: ignore[no-any-return]


def describe_enlargement(spec: DynamicSpec, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
    """Describe other sizes than the user's, such as ``axis 0 of x from 1 to 2``."""
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
    return [
        f"axis {axis} of {leaf.name} from {leaf.value.shape[axis]} to {new.shape[axis]}"
        for leaf, new, axes in zip(spec.leaves, leaves, spec.axes, strict=True)
        for axis in axes
        if new.shape[axis] != leaf.value.shape[axis]
    ]


def enlargement_note(changes: Sequence[str]) -> str:
    """Return a note on the enlarged axes, which may explain a failure."""
    if not changes:
        return ""
    return (
        f"\nDynamic axes are captured at size 2 or more, so the example was changed: {'; '.join(changes)}. "
        "If that contradicts other inputs, pass example inputs in which every dynamic axis is 2 or more."
    )


def other_examples(
    args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec
) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Yield the example at other sizes, with the sizes as text."""
    flat, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    axes = [(place, *member) for place, members in enumerate(axis_groups(spec).values()) for member in members]
    for rule in (lambda place, size: 1, lambda place, size: 2 * place + 3, lambda place, size: 2 * size):
        changed, texts = list(flat), []
        for place, index, axis, request in axes:
            tensor, (_, function) = changed[index], request.derived or ("", int)
            low, high = bounds(request.dim)
            present = (tensor.shape[axis] - function(0)) // (function(1) - function(0))
            size = max(rule(place, present), low)
            size += 2 if size == present and size > 1 else 0  # a size that the export did not see
            size = function(size if high is None else min(size, high))
            changed[index] = resize_example(tensor, axis, size) if tensor.shape[axis] else tensor
            texts.append(f"axis {axis} of {spec.leaves[index].name} is {size}")
        for index, leaf in enumerate(changed):
            if isinstance(leaf, TensorList):
                changed[index] = TensorList(itertools.islice(itertools.cycle(leaf), rule(index, len(leaf))))
                texts.append(f"{spec.leaves[index].name} has length {len(changed[index])}")
        if any(one is not other for one, other in zip(flat, changed, strict=True)):
            yield ", ".join(texts), *pytree.tree_unflatten(changed, structure)


def _sizes(flat: Sequence[Any], spec: DynamicSpec) -> list[dict[int, int]]:
    """Return for each leaf the changed sizes, by axis."""
    groups = axis_groups(spec)
    sizes: list[dict[int, int]] = [{} for _ in flat]
    loose: dict[tuple[int, int], int] = {}
    for key, members in groups.items():
        present = [flat[index].shape[axis] for index, axis, _ in members]
        if key[0] == "dim":
            functions = [derived[1] for _, _, request in members if (derived := request.derived)]
            root = _root(functions, present, [bounds(request.dim) for _, _, request in members])
            for (index, axis, _), size, function in zip(members, present, functions, strict=True):
                if root is not None and function(root) != size:
                    sizes[index][axis] = function(root)
            continue
        aligned = {flat[i].shape[a] for (i, a, _) in itertools.chain(*groups.values()) if a == key[2]} - {0, 1}
        other = min(aligned) if key[0] == "axis" and len(aligned) == 1 else 2
        loose |= {(index, axis): size for (index, axis, _), size in zip(members, present, strict=True)}
        for (index, axis, _), size in zip(members, present, strict=True):
            if size < 2:
                sizes[index][axis] = max(present) if max(present) >= 2 else other
    _keep_sums(sizes, loose)
    return sizes


def axis_groups(spec: DynamicSpec) -> dict[tuple[Any, ...], list[tuple[int, int, Axis]]]:
    """Group the axes that must be dynamic by their Dim, by their name, or each alone."""
    groups: dict[tuple[Any, ...], list[tuple[int, int, Axis]]] = {}
    for index, axes in enumerate(spec.axes):
        for axis, request in axes.items():
            if request.required:
                derived = request.derived
                key = ("dim", derived[0]) if derived else ("name", request.name, None) if request.name else ("axis", index, axis)
                groups.setdefault(key, []).append((index, axis, request))
    return groups


def _keep_sums(sizes: list[dict[int, int]], loose: dict[tuple[int, int], int]) -> None:
    """Grow axes that are one longer than another along with an axis of size 1.

    This keeps a decoder's step consistent: one token, n cached tokens, and a mask of n + 1. An axis that grows without need does
    no harm, since it is dynamic.
    """
    growth = {sizes[index][axis] - 1 for (index, axis), size in loose.items() if size == 1}
    if len(growth) == 1:
        known = {size for size in loose.values() if size >= 2}
        for (index, axis), size in loose.items():
            if size >= 2 and size - 1 in known:
                sizes[index][axis] = size + min(growth)


def _root(
    functions: Sequence[Callable[[int], int]], present: Sequence[int], bounds: Sequence[tuple[int, int | None]]
) -> int | None:
    """Return the least value of a Dim, at least 2, that shrinks no axis.

    None if the larger axes contradict each other or the user's bounds forbid it; torch's error is then more precise.
    """
    large = [(function, size) for function, size in zip(functions, present, strict=True) if size >= 2]
    roots = {_least(function, size) for function, size in large}
    if len(roots) > 1 or any(function(root) != size for function, size in large for root in roots):
        return None
    root = max(2, *roots, *(low for low, _ in bounds))
    while min(function(root) for function in functions) < 2:
        root += 1
    return root if all(high is None or root <= high for _, high in bounds) else None


def bounds(dim: Any) -> tuple[int, int | None]:
    """Return the bounds of a Dim, of a derived Dim's root, or of Dim.DYNAMIC."""
    bounds = vars(vars(dim).get("root", dim))
    high = bounds.get("max")
    return bounds.get("min") or 1, high if isinstance(high, int) else None


def _least(function: Callable[[int], int], size: int) -> int:
    """Return the least root whose axis is at least `size`; Dims grow linearly."""
    return -((function(0) - size) // (function(1) - function(0)))


def resize_example(tensor: Any, axis: int, size: int) -> Any:
    """Repeat or cut a tensor, or each of a list; fill an empty one with zeros."""
    if isinstance(tensor, TensorList):
        return TensorList(resize_example(element, axis, size) for element in tensor)
    with torch.no_grad():
        if tensor.shape[axis] == 0:
            result = tensor.new_zeros([*tensor.shape[:axis], size, *tensor.shape[axis + 1 :]])
        else:
            result = tensor.index_select(axis, torch.arange(size, device=tensor.device) % tensor.shape[axis])
    return result.requires_grad_(tensor.requires_grad)


def with_sizes(
    args: Sequence[Any], kwargs: Mapping[str, Any], sizes: Mapping[tuple[int, int], int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the example with these sizes, by leaf and axis."""
    flat, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    for (index, axis), size in sizes.items():
        if flat[index].shape[axis] != size:
            flat[index] = resize_example(flat[index], axis, size)
    return pytree.tree_unflatten(flat, structure)  # type: ignore[no-any-return]


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _closed(signature: inspect.Signature, kwargs: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature with ``**kwargs`` as keyword-only parameters."""
    named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    known = {p.name for p in named if p.kind is not p.POSITIONAL_ONLY}
    extra = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY) for key in kwargs if key not in known]
    return signature.replace(parameters=[*named, *extra])


def _adapted(original: Callable[..., Any], signature: inspect.Signature, items: Sequence[int]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        if items:
            flat, structure = pytree.tree_flatten((args, kwargs))
            flat = [leaf.item() if index in items else leaf for index, leaf in enumerate(flat)]
            args, kwargs = pytree.tree_unflatten(flat, structure)
        return original(*args, **kwargs)

    vars(forward)["__signature__"] = signature
    return forward
