"""Find the guards under which the exported model is right.

Where a model branches on a size, torch.export records one branch, and a guard in its ShapeEnv. `record_guard_sources` adds the
user's line to each guard. A guard counts if it comes from the user's code, from torch.nn, or from an operator whose result
depends on it (slice, split). Guards of other operators choose between equivalent computations, or repeat a check of eager.

A conversion of a symbolic number to int or float is a guard as well: the program contains the example's number.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
import sympy  # type: ignore[import-untyped]
import torch
from torch._dynamo import guards
from torch._guards import ShapeGuard, SLoc
from torch.export import ExportedProgram
from torch.export.exported_program import _convert_guards_to_code
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols, uninteresting_files
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from onnxexp._capture.source_lines import node_location, user_line_above
from onnxexp._capture.torch_state import is_exporting, replace_attributes
from onnxexp._request.dynamic_shapes import DynamicSpec, user_inputs
from onnxexp._source_location import SourceLocation, is_installed, is_torch_nn, is_user_code, only_raises_or_warns
from onnxexp._torch_export.program_modes import shape_env
from onnxexp._torch_export.sampled_conditions import LEAST, STEPS, always_holds, holds, sample_sizes
from onnxexp._torch_export.squeezed_axes import compared_with_one, ends_of_slices, is_returned_squeeze, possibly_one
from onnxexp._torch_export.symbol_names import InputSize, input_symbols, symbol_names
from onnxexp._user_warnings import warn

_Ends: TypeAlias = "Callable[[], Collection[frozenset[sympy.Symbol]]]"
_ELEMENTS = "infer_size", torch._prims_common.__file__
"""torch's function that compares the numbers of elements of a tensor and its view, and its file."""
_SLICE = "_compute_slice_index"
_OPERATORS = {_SLICE, "split"}
"""torch's functions with a guard that determines a result: the length of a slice, the number of parts of a split."""
_DYNAMO = os.path.join(os.path.dirname(torch.__file__), "_dynamo") + os.sep
"""The folder of Dynamo, which interprets the user's code in strict mode. It also checks its own guards, in `guards`."""
_CONVERSIONS = {"guard_int", "guard_float"}
"""torch's functions that convert a symbolic number to its value in the example."""
_NUMBER_FIX = "Write that line with operators that take any size, or leave the axis out of dynamic_shapes / dynamic_axes."
_FIX = (
    "Other sizes take another branch or have other shapes, which torch.export did not record. Write that line for any size "
    "(torch.where, torch.cond), or limit the sizes in dynamic_shapes (Dim.DYNAMIC(min=..., max=...))."
)

_Symbols: TypeAlias = Mapping[sympy.Symbol, InputSize]


class _GuardSource(traceback.FrameSummary):
    """The frame that evaluated a condition on sizes; in strict mode, the user's.

    `place` is the user's file and line, `converts` whether the code converted a symbolic number to an int or a float, `known`
    whether the condition follows from earlier guards, `interpreted` whether Dynamo evaluated it.
    """

    place, converts, known, interpreted = ("", 0), False, False, False

    @property
    def users(self) -> SourceLocation:
        """The user's line with its text, which few guards need."""
        return SourceLocation.read(*self.place) if self.place[0] else SourceLocation()


@contextlib.contextmanager
def record_guard_sources() -> Iterator[None]:
    """Make torch store a `_GuardSource` with each guard on a symbolic size.

    torch records no guard for a condition that follows from others. Those of the user's code are recorded as well: an operator
    may have evaluated the same condition before, where it does not count.
    """
    original, evaluate = ShapeEnv._get_stack_summary, ShapeEnv.evaluate_sym_node

    def summary(env: ShapeEnv, is_debug: bool = False, framework_loc: str | None = None) -> tuple[SLoc, str]:
        found: Any = framework_loc or _guard_source(sys._getframe(1))  # a frame also fits, despite torch's annotation
        return original(env, is_debug, found)

    def evaluated(env: ShapeEnv, node: SymNode, *args: Any, **options: Any) -> Any:
        count = len(env.guards)
        value = evaluate(env, node, *args, **options)
        if len(env.guards) == count and node.is_bool() and _is_of_user(frame := sys._getframe(1)):
            source = _guard_source(frame)
            if source is not None and is_user_code(source.filename) and _restricts_inputs(env, node.expr):
                source.known = True
                env.guards.append(ShapeGuard(node.expr if value else sympy.Not(node.expr), SLoc(source, None), False))
        return value

    with replace_attributes(((ShapeEnv, "_get_stack_summary", summary), (ShapeEnv, "evaluate_sym_node", evaluated))):
        yield


def _is_of_user(frame: FrameType | None) -> bool:
    """Return whether the user's code evaluates a condition, or Dynamo for it."""
    file = "" if (frame := _evaluating(frame)) is None else frame.f_code.co_filename
    return is_user_code(file) or file.startswith(_DYNAMO)


def _evaluating(frame: FrameType | None) -> FrameType | None:
    """Return the frame that torch would record with a guard."""
    skipped = uninteresting_files()
    while frame is not None and ((file := frame.f_code.co_filename) in skipped or file == __file__):
        frame = frame.f_back
    return frame


def _guard_source(frame: FrameType | None) -> _GuardSource | None:
    """Return the frame that torch would record, with the user's line."""
    inner, frame = frame, _evaluating(frame)
    if frame is None:
        return None
    file, line = frame.f_code.co_filename, frame.f_lineno
    source = _GuardSource(file, line, frame.f_code.co_name, lookup_line=False)
    while inner is not frame and inner is not None:
        source.converts, inner = source.converts or inner.f_code.co_name in _CONVERSIONS, inner.f_back
    source.place = user_line_above(frame) if is_exporting() else ("", 0)
    source.interpreted = file.startswith(_DYNAMO) and file != guards.__file__
    if source.interpreted:
        source.filename, source.lineno = source.place
    return source


def source_of(guard: ShapeGuard) -> _GuardSource | None:
    """Return the frame that evaluated a guard, or torch's own record of it."""
    frame: Any = guard.sloc.framework_loc
    return frame if not frame or isinstance(frame, _GuardSource) else _GuardSource(*frame[:3])


def restrictions(program: ExportedProgram, spec: DynamicSpec) -> dict[str, Callable[[Sequence[Any]], bool]]:
    """Return the conditions under which the program is right, as tests of leaves.

    Warns of those that narrow the range that was asked for.
    """
    symbols, names, found = input_symbols(program, spec), symbol_names(program, spec, each=True), conditions(program, spec)
    env, samples = shape_env(program), {symbol: sample_sizes(size, LEAST) for symbol, size in symbols.items()}
    for expr in _stored_guards(program, env):
        if _restricts_inputs(env, expr) and not always_holds(env, expr, samples, found):
            unit = isinstance(expr, (sympy.Ne, sympy.Gt)) and sympy.S.One in expr.args  # most operators compare with 1
            found[expr] = "" if unit else f"{names.condition(expr)} (a guard of the given program)"
    for expr in _ends_within_axes(env, program, _merged(env, symbols)):  # a mask for the tokens: refused, without a warning
        found.setdefault(expr, "")
    if told := "; ".join(filter(None, found.values())):
        warn(f"the exported model is right only where {told}. {_FIX}")
    allowed = (*_ranges(program, symbols), *found)
    return {names.condition(expr): functools.partial(_allows, expr, symbols) for expr in allowed}


def _ends_within_axes(
    env: ShapeEnv, program: ExportedProgram, merged: Mapping[sympy.Symbol, sympy.Symbol]
) -> Iterator[sympy.Expr]:
    """Yield the conditions that a slice ends within a dynamic axis of an input."""
    compared = [
        guard
        for _, guard, source in _decisions(env, program, fixed=False, known=False)
        if isinstance(source, _GuardSource) and source.name == _SLICE and isinstance(guard, (sympy.Le, sympy.Ge))
        if len(guard.free_symbols) > 1 and guard.free_symbols <= merged.keys()
    ]
    ends = ends_of_slices(program, static=False) if compared else set()
    for guard in compared:
        expr = guard.xreplace(merged)
        if expr is not sympy.true and any(each < guard.free_symbols for each in ends):
            yield expr


def _merged(env: ShapeEnv, symbols: _Symbols) -> dict[sympy.Symbol, sympy.Symbol]:
    """Return the first symbol of each name and value: the user made these equal."""
    first: dict[Any, sympy.Symbol] = {}
    return {symbol: first.setdefault((size.name, env.backed_var_to_val[symbol]), symbol) for symbol, size in symbols.items()}


def _stored_guards(program: ExportedProgram, env: ShapeEnv) -> list[sympy.Expr]:
    """Return the guards that a file stores as a function, without the user's lines.

    The function runs on the symbolic inputs, which makes them guards of the ShapeEnv again.
    """
    known, before = _convert_guards_to_code(program.graph_module), len(env.guards)  # type: ignore[no-untyped-call] # torch's own
    if set(program._guards_code) <= set(known):
        return []
    try:
        program.module().get_submodule("_guards_fn")(*user_inputs(program))
    except AttributeError:  # so does the program itself
        warn(
            f"the given program fails in its guards, which are not checked: {'; '.join(program._guards_code)}; "
            "to fix this, give torch.export.export clone()s in place of inputs that are views"
        )
    return [guard.expr for guard in env.guards[before:]]


def fixed_numbers(program: ExportedProgram, spec: DynamicSpec) -> str:
    """Return a message on constant numbers that depend on dynamic sizes."""
    found = conditions(program, spec, fixed=True)
    return f"the model fixes a number that depends on a dynamic size: {'; '.join(found.values())}. {_NUMBER_FIX}" if found else ""


def conditions(program: ExportedProgram, spec: DynamicSpec, fixed: bool = False, known: bool = False) -> dict[sympy.Expr, str]:
    """Return the conditions that fail at a sample, with their texts and lines.

    With `fixed`, these are the conversions to int and float and the axes that squeeze removes; else all others. Those that follow
    from earlier guards count with `known` only if Dynamo or an installed package evaluated them: they may be checks of torch.nn.
    """
    env, symbols, names = shape_env(program), input_symbols(program, spec), symbol_names(program, spec, each=True)
    samples, small = ({symbol: sample_sizes(size, least) for symbol, size in symbols.items()} for least in (LEAST, 1))
    merged = _merged(env, symbols)
    found: dict[sympy.Expr, str] = {}
    ends = functools.cache(lambda: ends_of_slices(program, static=True))  # few programs need it
    needed = [(place, guard.expr.xreplace(merged)) for place, guard in enumerate(env.guards) if _is_needed_by_view(guard)]
    for place, guard, source in _decisions(env, program, fixed, known):
        if not samples.keys().isdisjoint(guard.free_symbols):
            expr = guard.xreplace(merged)
            counts = expr not in found and _restricts_inputs(env, expr)
            line = _source_line(env, source, expr, fixed, ends) if counts else ""
            points = small if _counts_at_one(source) else samples
            # a view after a branch may fit because of it: the other branch may pad
            earlier = [each for before, each in needed if before < place]
            if line and not always_holds(env, expr, points, (*found, *earlier)):
                found[expr] = line
        elif isinstance(source, SourceLocation) and free_unbacked_symbols(guard):
            found[guard] = str(source)
    return {expr: f"{names.condition(expr)} ({line})" for expr, line in found.items()}


def _is_needed_by_view(guard: ShapeGuard) -> bool:
    """Return whether a view fits its tensor only where a guard holds.

    The numbers of elements must be equal. The model fails at other sizes, as a view into windows does at sizes that are no
    multiples. A condition that holds at all sizes that are left is none.
    """
    source = source_of(guard)
    return isinstance(guard.expr, sympy.Eq) and source is not None and (source.name, source.filename) == _ELEMENTS


def _counts_at_one(source: _GuardSource | SourceLocation) -> bool:
    """Return whether a condition counts at size 1.

    A branch of an installed package at size 1 is usually another way to the same result, as in attention to one token.
    """
    if isinstance(source, SourceLocation):
        return True
    return is_user_code(source.filename) and not source.interpreted and not is_installed(source.filename)


def _decisions(
    env: ShapeEnv, program: ExportedProgram, fixed: bool, known: bool
) -> Iterator[tuple[int, sympy.Expr, _GuardSource | SourceLocation]]:
    """Yield the conditions on sizes, also those of squeeze.

    Each has its place among the guards and its source.
    """
    for place, guard in enumerate(env.guards):
        source = source_of(guard)
        if source is None:
            continue
        if source.known and not known and not _counts_at_one(source) and _unit_size(env, guard.expr) is None:
            continue
        if (source.converts and source.name not in _OPERATORS) == fixed:
            yield place, guard.expr, source
    for node in program.graph.nodes:
        for size in compared_with_one(node):
            one = sympy.Eq(size.node.expr, 1)
            removed = one.xreplace(env.backed_var_to_val) is sympy.true
            if removed == fixed:
                yield len(env.guards), one if removed else sympy.Not(one), node_location(node)


def ranks_of_call(program: ExportedProgram, spec: DynamicSpec) -> set[str]:
    """Return the names of the outputs whose rank depends on the sizes of a call."""
    env, symbols = shape_env(program), input_symbols(program, spec)
    samples = {symbol: sample_sizes(size, 1) for symbol, size in symbols.items()}

    def may_be_one(size: torch.SymInt) -> bool:
        kept = sympy.Ne(size.node.expr, 1)
        return bool(free_unbacked_symbols(size)) or not always_holds(env, kept, samples, ())

    nodes = filter(is_returned_squeeze, program.graph.nodes)
    return {node.name for node in nodes if any(map(may_be_one, possibly_one(node).values()))}


def _ranges(program: ExportedProgram, symbols: _Symbols) -> Iterator[sympy.Expr]:
    """Yield the limits of the user's ranges, or of a given program's."""
    for symbol, size in symbols.items():
        known = program.range_constraints.get(symbol, ValueRanges.unknown_int())
        low, high = (known.lower, known.upper) if size.request is None else size.range
        if low > LEAST:
            yield sympy.Ge(symbol, low)
        if high < int_oo:
            yield sympy.Le(symbol, high)


def _allows(condition: sympy.Expr, symbols: _Symbols, leaves: Sequence[Any]) -> bool:
    """Return whether a condition is true of a call, as far as it has the axes."""
    used = [symbols[symbol] for symbol in condition.free_symbols & symbols.keys()]
    shapes = [(size, np.shape(leaves[size.index])) for size in used]
    sizes = {
        size.symbol: leaves[size.index] if size.axis is None else shape[size.axis]
        for size, shape in shapes
        if len(shape) > (size.axis or -1)
    }
    return holds(condition, {symbol: sympy.Integer(size) for symbol, size in sizes.items()})


def _restricts_inputs(env: ShapeEnv, expr: sympy.Expr) -> bool:
    """Return whether a condition restricts the sizes of the inputs.

    An inequality between axes that are equal in the example does not count: they usually belong together (a mask and its tokens).
    """
    symbols = expr.free_symbols
    if not symbols or not symbols <= env.backed_var_to_val.keys():
        return False
    fits = len(symbols) > 1 and isinstance(expr, (sympy.Le, sympy.Ge))
    return not (fits and (expr.lhs - expr.rhs).xreplace(env.backed_var_to_val) == 0)


def _source_line(
    env: ShapeEnv,
    frame: _GuardSource | SourceLocation,
    expr: sympy.Expr,
    fixed: bool,
    ends: _Ends,
) -> str:
    """Return the line that evaluated the condition; "" if it does not count."""
    if isinstance(frame, SourceLocation):
        return str(frame)
    file, line = frame.filename, frame.lineno or 0
    if is_user_code(file):
        counts = True
    elif is_torch_nn(file):
        counts = len(expr.free_symbols) == 1  # on several axes, torch.nn checks only that they fit
    else:
        counts = frame.name in _OPERATORS and not (frame.name == _SLICE and _bounds_slice(expr, ends))
        counts = counts or (isinstance(expr, sympy.Eq) and 1 in expr.args and _unit_size(env, expr) is not None)
    if not fixed and (not counts or only_raises_or_warns(file, line)):  # eager raises for such sizes too
        return ""
    return str(frame.users if frame.users.file else SourceLocation.read(file, line))


def _bounds_slice(expr: sympy.Expr, ends: _Ends) -> bool:
    """Return whether a condition only states that a slice ends within a table.

    Eager fails beyond the end of a table (or mask) as well. A constant end (``x[:5]``) is different: for a shorter axis, the
    result is smaller than the program records. So is an end within another axis that is longer in the example, and an end
    within a static axis of an input, which `ends` lists by the symbols.
    """
    upper = dict.fromkeys(expr.free_symbols, sympy.Integer(STEPS[-1]))
    bounds = isinstance(expr, (sympy.Le, sympy.Ge)) and len(upper) == 1 and not holds(expr, upper)
    return bounds and expr.free_symbols not in ends()


def unit_sizes(program: ExportedProgram) -> list[sympy.Expr]:
    """Return the sizes that torch took for always 0 or 1, as in the example."""
    env = shape_env(program)
    sources = [(guard.sloc.framework_loc, guard.expr) for guard in env.guards]
    chosen = [expr for at, expr in sources if isinstance(at, _GuardSource) and not is_user_code(at.filename)]
    return [size for expr in chosen if (size := _unit_size(env, expr)) is not None]


def _unit_size(env: ShapeEnv, expr: sympy.Expr) -> sympy.Expr | None:
    """Return the size that a condition takes for 0 or 1, if there is one."""
    if not isinstance(expr, sympy.core.relational.Relational):
        return None
    for size, other in (expr.args, expr.args[::-1]):
        fails_at_two = expr.xreplace({size: sympy.Integer(2)}) is sympy.false
        if other.is_Integer and size.xreplace(env.backed_var_to_val) in (0, 1) and fails_at_two:
            return size
    return None
