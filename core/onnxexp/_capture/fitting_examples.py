"""Find an example that the model accepts, with dynamic axes of 2 or more.

`enlarge` makes axes of size 0 and 1 larger, one by one. Other axes may have to grow with them, for example a mask over cached and
new tokens with an empty cache. These relations are part of the model's code, so candidates are run until the model accepts one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch.utils import _pytree as pytree

from onnxexp._capture.example_inputs import axis_groups, bounds, describe_enlargement, enlarge, enlargement_note, with_sizes
from onnxexp._errors import CaptureError
from onnxexp._request.axis_spec import Axis
from onnxexp._request.dynamic_shapes import DynamicSpec

_ATTEMPTS = 48
"""The number of examples that are run."""
_SORTED = 4096
"""The number of examples that are sorted by the relations that they keep."""
_CHANGED = 3
"""The number of sizes that are changed beside those below 2."""

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
Run: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], Any]


class _Size(NamedTuple):
    """A dynamic size, with its axes and its value in both examples."""

    members: list[tuple[int, int, Axis]]
    own: int
    enlarged: int

    def allows(self, value: int) -> bool:
        limits = [bounds(request.dim) for _, _, request in self.members]
        return value >= 2 and all(low <= value and (high is None or value <= high) for low, high in limits)


def run_fitting(
    capture: Run, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec
) -> tuple[Arguments, Any]:
    """Capture a model on an enlarged example that fits, or on the original one.

    Parameters:
        capture: Captures the model on an example; raises CaptureError where that fails.
        run: Runs the model on an example; raises CaptureError where it fails.

    Returns:
        The example's args and kwargs, and the result of `capture`.

    Raises:
        CaptureError: `run` fails on the user's example, or `capture` on the one that was found.
    """
    example = enlarge(args, kwargs, spec)
    try:
        return example, capture(*example)
    except CaptureError:
        if not describe_enlargement(spec, *example):
            raise
    example = fitting_example(run, args, kwargs, spec) or (tuple(args), dict(kwargs))
    try:
        return example, capture(*example)
    except CaptureError as error:
        raise CaptureError(f"{error}{enlargement_note(describe_enlargement(spec, *example))}") from error


def fitting_example(run: Run, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec) -> Arguments | None:
    """Return an example that `run` accepts, with dynamic axes of 2 or more.

    Returns None if no such example is found.

    Raises:
        CaptureError: `run` raises it for the user's own example, too.
    """
    enlarged = enlarge(args, kwargs, spec)
    if describe_enlargement(spec, *enlarged):
        for sizes in itertools.islice(_choices(args, kwargs, enlarged, spec), _ATTEMPTS):
            example = with_sizes(*enlarged, sizes)
            try:
                run(*example)
            except CaptureError:  # the model does not accept these sizes
                continue
            return example
    run(args, kwargs)
    return None


def _choices(args: Any, kwargs: Any, enlarged: Arguments, spec: DynamicSpec) -> Iterator[dict[tuple[int, int], int]]:
    """Yield sizes by leaf and axis.

    Equal sizes change together at first, then each alone.
    """
    own, grown = (pytree.tree_leaves(call) for call in ((tuple(args), dict(kwargs)), enlarged))
    sizes = [
        _Size(members, max(_value(own, *member) for member in members), max(_value(grown, *member) for member in members))
        for members in axis_groups(spec).values()
    ]
    alike = [(size.own, size.members[0][1]) for size in sizes]
    classes = [[index for index, other in enumerate(alike) if other == key] for key in dict.fromkeys(alike)]
    seen = set()
    for together in (classes, [[index] for index in range(len(sizes))]):
        tried = sorted(itertools.islice(_assignments(sizes, together), _SORTED), key=lambda values: _broken(sizes, values))
        for values in tried:
            if values not in seen and all(size.allows(value) for size, value in zip(sizes, values, strict=True)):
                seen.add(values)
                yield {
                    (index, axis): (request.derived or ("", int))[1](value)
                    for size, value in zip(sizes, values, strict=True)
                    for index, axis, request in size.members
                }


def _value(leaves: Sequence[Any], index: int, axis: int, request: Axis) -> int:
    """Return the size of an axis, or of the root of a derived Dim."""
    _, function = request.derived or ("", int)
    size: int = leaves[index].shape[axis]
    return (size - function(0)) // (function(1) - function(0))


def _assignments(sizes: Sequence[_Size], classes: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Yield values of all sizes, where few classes differ from the enlarged example."""
    least = [2 if size.own < 2 else size.enlarged for size in sizes]
    for start in dict.fromkeys([tuple(size.enlarged for size in sizes), tuple(least), tuple(max(2, size.own) for size in sizes)]):
        growths = {(value - size.own, size.own) for size, value in zip(sizes, start, strict=True) if size.own < 2}
        changes = [_changes(sizes[members[0]].own, sorted(growths)) for members in classes]
        yield start
        for count in range(1, _CHANGED + 1):
            for chosen in itertools.combinations(range(len(classes)), count):
                for values in itertools.product(*(changes[place] for place in chosen)):
                    changed = list(start)
                    for place, value in zip(chosen, values, strict=True):
                        for index in classes[place]:
                            changed[index] = value
                    yield tuple(changed)


def _changes(own: int, growths: Sequence[tuple[int, int]]) -> list[int]:
    """Return other values for a size that grows with those below 2."""
    sums = [
        sum(growth for growth, _ in part) for count in (1, 2) for part in itertools.combinations_with_replacement(growths, count)
    ]
    products = [own * (growth + small) for growth, small in growths if small == 1]
    return list(dict.fromkeys([*(own + total for total in sums), *products, *(own - total for total in sums)]))


def _broken(sizes: Sequence[_Size], values: Sequence[int]) -> int:
    """Count the broken relations, a = b and a = b + c, of the user's sizes."""
    own = [size.own for size in sizes]
    pairs = itertools.combinations(range(len(sizes)), 2)
    equal = sum(own[a] == own[b] and values[a] != values[b] for a, b in pairs)
    sums = sum(
        own[a] == own[b] + own[c] and values[a] != values[b] + values[c]
        for a, b, c in itertools.permutations(range(min(len(sizes), 8)), 3)
        if b < c
    )
    return equal + sums
