"""The second trace: a model traced at other sizes, and compared with the first.

Where the example's sizes were enlarged for the trace, the trace is compared with the model at the example's own sizes too. A size
of 1 becomes 2, and other sizes may grow with it: the model may take another branch in Python there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxexp import CaptureError, warn
from onnxexp.checking import compare
from onnxexp.frontends import DynamicSpec, call_preserved
from onnxexp_torchscript.checks.other_sizes import AxisLengths, OtherSizes, other_sizes
from onnxexp_torchscript.checks.trace_comparison import Difference, differences
from onnxexp_torchscript.jit.source_locations import Places
from onnxexp_torchscript.trace.skipped_products import SkippedProducts
from onnxexp_torchscript.trace.trace import Recording, Trace

_SHOWN = 10
"""How many differences one error lists."""
_FIX = (
    "to fix this, compute it from x.shape without int(), range() or a branch in Python, "
    "script that part with torch.jit.script, or "
    "leave the axis or the number static; check_sizes=False takes what the example's sizes give"
)
_FIX_OF_CONTENTS = (
    "to fix this, keep such a number a tensor, x.sum() for float(x.sum()) or x.sum().item(), and write x.detach() for x.data; or "
    "script that part with torch.jit.script; check_sizes=False takes the example's numbers"
)


def check_sizes(recording: Recording, spec: DynamicSpec, axes: AxisLengths) -> dict[tuple[sympy.Symbol, sympy.Symbol], str]:
    """Compare a trace with one at other sizes and with other numbers.

    The trace is also compared with the model at the example's own sizes, where those were enlarged.

    Returns the pairs of sizes that have to be equal, as in the example, each with the difference that it would leave.

    Raises CaptureError where the trace has fixed a value that depends on them. Warns where the model runs at none of the other
    sizes.
    """
    dynamic = [*spec.scalars.values(), *(axis for axes in spec.axes for axis in axes.values())]
    if recording.again is None or not any(axis.required for axis in dynamic):
        return {}
    ties = _check_other_sizes(recording, spec, axes, recording.again)
    check_own_sizes(recording, spec, recording.again)
    return ties


def _check_other_sizes(
    recording: Recording, spec: DynamicSpec, axes: AxisLengths, again: Callable[..., Trace]
) -> dict[tuple[sympy.Symbol, sympy.Symbol], str]:
    failed = ""
    for other, found in _compared(recording, spec, axes, again):
        if isinstance(found, CaptureError):
            failed = f"({other.text}) {found}"
            continue
        if not found and recording.warnings and not recording.branches:  # the model branches
            other, found = _opposite(recording, spec, axes, again) or (other, found)
        ties = _ties(recording, spec, axes, again) if found else {}
        if found and not ties:
            contents = _follow_from_contents(found, recording, again)
            what, fix = ("the contents of a tensor", _FIX_OF_CONTENTS) if contents else (_what(spec), _FIX)
            raise CaptureError(_text(found, recording.places, other.text, what, fix))
        return {pair: _line(found[0], recording.places).strip() for pair in ties.items()}
    if failed and recording.branches:
        raise CaptureError(
            f"the branches could not be compared at other sizes {failed.partition('; to fix this,')[0]}; "
            "to fix this, leave such axes static"
        )
    if failed:
        warn(
            "The trace could not be compared with one at other sizes, so it may be wrong there: the model fails at the sizes "
            f"that were tried; the last were {failed.partition('; to fix this,')[0]}{_at(failed)}. check_sizes=False tries none."
        )
    return {}


def _compared(
    recording: Recording, spec: DynamicSpec, axes: AxisLengths, again: Callable[..., Trace], opposite: bool = False
) -> Iterator[tuple[OtherSizes, list[Difference] | CaptureError]]:
    """Yield other sizes with the differences there, or the model's error."""
    for other in other_sizes(spec, recording.example, axes, opposite):
        try:
            found = _differences_at(other, recording, again)
        except CaptureError as error:
            yield other, error
        else:
            yield other, _without_chance(found, recording, again) if found else found


def _opposite(
    recording: Recording, spec: DynamicSpec, axes: AxisLengths, again: Callable[..., Trace]
) -> tuple[OtherSizes, list[Difference]] | None:
    """Return the differences at sizes in opposite order, or None if the model fails.

    ``chunk`` may give fewer pieces at smaller sizes, for which there is a warning already. Lengths are therefore compared at
    larger sizes.
    """
    result = None
    for other, found in _compared(recording, spec, axes, again, opposite=True):
        if not isinstance(found, CaptureError):
            result = other, found
            if not any(difference.of_lengths for difference in found):
                break
    return result


def _ties(
    recording: Recording, spec: DynamicSpec, axes: AxisLengths, again: Callable[..., Trace]
) -> dict[sympy.Symbol, sympy.Symbol]:
    """Return the fewest equal axes that leave no difference, if there are any."""

    def agrees(ties: dict[sympy.Symbol, sympy.Symbol]) -> bool:
        outcomes = (found for _, found in _compared(recording, spec, axes.tied(ties), again))
        return next((found for found in outcomes if not isinstance(found, CaptureError)), None) == []

    ties = axes.equal_in_example()
    if not ties or not agrees(ties):
        return {}
    for symbol in list(ties) if len(ties) > 1 else ():
        fewer = {one: other for one, other in ties.items() if one is not symbol}
        ties = fewer if agrees(fewer) else ties
    return ties


def _at(failed: str) -> str:
    """Return the line of an error that has one."""
    _, at, line = failed.partition("\n  at ")
    return f", at {line}" if at else ""


def _differences_at(other: OtherSizes, recording: Recording, again: Callable[..., Trace]) -> list[Difference]:
    """Compare with a trace at other sizes.

    Raises CaptureError where the model fails there.

    A first attempt skips the products with weights. Its result counts if it skipped nothing, or if there is no difference and
    nothing depends on the skipped products.
    """
    if recording.module is None:
        products = SkippedProducts()
        try:
            second = again(other.example, same_random=True, replaced=products.replacements())
        except CaptureError:
            if not products.count:
                raise
        else:
            found = _found(recording, second)
            if not products.count or (products.unused(second.graph) and not found):
                return found
    return _found(recording, again(other.example, same_random=True))


def _found(recording: Recording, second: Trace) -> list[Difference]:
    leaves, out_spec = second.returned
    if [each.outcome for each in second.branches] != [each.outcome for each in recording.branches]:
        raise CaptureError("the model takes another branch there; to fix this, script that line with torch.jit.script")
    if out_spec != recording.out_spec:
        counts = recording.out_spec.num_leaves, out_spec.num_leaves
        text = f"the model returns {counts[0]} values, and {counts[1]} there"
        return [Difference(-1, None, text, of_lengths=counts[0] != counts[1])]
    found = differences(recording.graph, second.graph)
    for one, tensor, other in zip(recording.constants, recording.returned, leaves, strict=True):
        if not tensor and isinstance(one, (bool, int, float, str)) and one != other:
            found.append(Difference(-1, None, f"the model returns the constant {one!r}, which is {other!r} there"))
    return found


def _without_chance(found: list[Difference], recording: Recording, again: Callable[..., Trace]) -> list[Difference]:
    """Drop the differences that do not come from the sizes.

    A third trace at the example's own sizes, with other random numbers, has such differences too.
    """
    by_chance = differences(recording.graph, again(recording.example, same_random=False).graph)
    end = min((one.index for one in by_chance if one.structural), default=None)
    places = {one.index for one in by_chance}
    return [one for one in found if one.index not in places and (end is None or one.index < end)]


def _follow_from_contents(found: list[Difference], recording: Recording, again: Callable[..., Trace]) -> bool:
    """Return whether a trace with other contents has all differences too.

    That trace has the example's sizes.
    """
    leaves = [leaf + 1 if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf for leaf in recording.example]
    try:
        places = {one.index for one in differences(recording.graph, again(leaves, same_random=True).graph)}
    except CaptureError:
        return False
    return all(one.index in places and not one.structural for one in found)


def _what(spec: DynamicSpec) -> str:
    """Describe the dynamic inputs: an axis, a number, or either."""
    return " or ".join(["a dynamic axis"] * any(spec.axes) + ["a dynamic number"] * bool(spec.scalars))


def _text(found: list[Difference], places: Places, sizes: str, what: str, fix: str) -> str:
    lines = dict.fromkeys(_line(difference, places) for difference in found)
    shown = list(lines)[:_SHOWN]
    if len(lines) > _SHOWN:
        shown.append(f"  and {len(lines) - _SHOWN} more places")
    return "\n".join([f"the trace fixes what depends on {what}; a second trace, of {sizes}, differs; {fix}", *shown])


def _line(difference: Difference, places: Places) -> str:
    where = places.of(difference.node) if difference.node is not None else None
    return f"  {difference.text}, at {where}" if where is not None and str(where) else f"  {difference.text}"


_FIX_OF_OWN_SIZES = (
    "compute it from x.shape without an index, int(), range() or a branch in Python, script that part with "
    "torch.jit.script, or leave the axis static; or pass an example with 2 or more on every dynamic axis, for a program that is "
    "right there"
)
_RTOL = 1e-3
"""Another branch may compute the same in another way."""


def check_own_sizes(recording: Recording, spec: DynamicSpec, again: Callable[..., Trace]) -> None:
    """Compare a trace of an enlarged example with the model at its own sizes.

    Nothing is compared where Python has read no number of a tensor.

    Raises CaptureError where the results differ.
    """
    changes = [
        f"axis {axis} of {leaf.name} from {leaf.value.shape[axis]} to {traced.shape[axis]}"
        for leaf, traced, axes in zip(spec.leaves, recording.example, spec.axes, strict=True)
        for axis in axes
        if traced.shape[axis] != leaf.value.shape[axis]
    ]
    if not changes or not (recording.warnings or recording.indexed):
        return
    own = [leaf.value for leaf in spec.leaves]
    try:
        second = again(own, same_random=True)
    except CaptureError:  # the model does not run there, so it has no values
        return
    if second.returned[1] == recording.out_spec and not differences(recording.graph, second.graph):
        return
    problem = _problem(recording, second, own)
    if problem:
        enlarged = f"dynamic axes are traced at size 2 or more, so the example was changed: {'; '.join(changes)}"
        raise CaptureError(
            f"the trace is wrong at the sizes of the example: {problem}; {enlarged}; to fix this, {_FIX_OF_OWN_SIZES}"
        )


def _problem(recording: Recording, second: Trace, own: Sequence[Any]) -> str:
    """Describe how the program's result differs from the model's, or return ""."""
    leaves, out_spec = second.returned
    if out_spec != recording.out_spec:
        return f"the model returns {out_spec.num_leaves} values there, and the program {recording.out_spec.num_leaves}"
    expected = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    try:
        actual = _run(recording, own)
    except RuntimeError:  # it fails there, and is not wrong; or it has an operator that only an exporter knows
        return ""
    report = compare(expected, actual, [f"output {place}" for place in range(len(expected))], rtol=_RTOL)
    return "; ".join(f"{output.name}: {output.problem}" for output in report.outputs if output.problem)


def _run(recording: Recording, own: Sequence[Any]) -> Any:
    """Run the program on the example, with copies of all that it may write into."""
    stored = [tensor.detach().clone() for tensor in recording.state.values()]
    leaves = (own[index] for index in recording.leaves)
    given = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in leaves]
    with recording.random.again(), torch.no_grad():
        if recording.module is not None:
            return call_preserved(recording.module, tuple(given), {})
        graph = recording.graph.copy()
        torch._C._jit_pass_erase_shape_information(graph)
        return torch._C._create_function_from_graph("forward", graph)(*given, *stored)
