"""Shorten torch.export errors to the input, the axis and the user's source line.

torch's ShapeEnv records a frame for each guard. `explain` finds the ShapeEnv in the exception's traceback. If the recorded frame
is torch's own, `explain` runs the capture once more under a profile function, which sees the whole stack of each new guard.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import _trace
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from onnxexp.capture.example_inputs import describe_enlargement
from onnxexp.capture.source_lines import code_line, innermost_user_line, is_user_code, metadata_location, user_line_above
from onnxexp.graph import Where
from onnxexp.request.dynamic_shapes import DynamicSpec

__all__ = ["explain"]

_BULLET = re.compile(r"^\s*- (.*)$", re.MULTILINE)
_SIZE = re.compile(r"(?:L|inputs)(?P<path>(?:\[[^\]]*\]|\.(?!shape\b|size\b)\w+)*)(?:\.size\(\)|\.shape)?(?:\[(?P<axis>\d+)\])?")
_FIXED = re.compile(r"^You marked (.+?) as dynamic but your code specialized it to be a constant \((-?\d+)\)")
_WRAPPED = re.compile(r"got (\w+)\(['\"](.*?)['\"]\)$", re.MULTILINE)
_HINT = re.compile(r"^Received user-specified dim hint .*(?:static shape|hint) of (-?\d+) for dimension (.+)\.$")


def explain(error: BaseException, spec: DynamicSpec, retry: Callable[[], object] | None = None) -> str:
    """Explain a failed capture without tracebacks and logging flags.

    Args:
        error: The exception from torch.export.
        spec: The requested dynamic axes.
        retry: Runs the failed capture again; called at most once, and only if a source line is missing.
    """
    text = str(error).partition("\nThe error above occurred when calling torch.export")[0]
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, GuardOnDataDependentSymNode):
            return _data_dependent(link, text)
    bullets = _BULLET.findall(text) if "onstraints violated" in text or "conflicts between user-specified" in text else []
    env = _shape_env(chain)
    if not bullets or env is None:
        line = _raised_at(chain) or metadata_location({"stack_trace": text})
        return f"{_brief_message(error, text)}{_location_text(line)}{_enlargement_note(spec)}"
    lines = _GuardLines(env, spec)
    if retry is not None and not lines.is_complete():
        lines = _retry_with_profiler(retry, spec) or lines
    reasons = "\n".join(lines.rewrite(bullet) for bullet in bullets)
    if all(_FIXED.match(bullet) or _HINT.match(bullet) for bullet in bullets):
        return (
            f"{reasons}\nChange that line so that it works at any size, or leave the axis out of dynamic_shapes / dynamic_axes."
        )
    strict = 'A Dim is proven over its whole range; for a name ("batch") or Dim.DYNAMIC it suffices that the axis is not fixed.'
    return "\n".join([reasons, *_suggested_fixes(text), strict])


def _data_dependent(error: GuardOnDataDependentSymNode, text: str) -> str:
    line = _raised_at([error]) or metadata_location({"stack_trace": text})
    return (
        f"the model branches in Python on a value that is known only at run time ({error.cond}){_location_text(line)}\n"
        "Use torch.where or torch.cond, state the condition with torch._check, or compile that part with torch.jit.script."
    )


@dataclasses.dataclass(frozen=True)
class _NamedSize:
    text: str
    symbol: sympy.Symbol


class _GuardLines:
    """The symbolic sizes of a failed capture, with the line of each guard."""

    def __init__(self, env: ShapeEnv, spec: DynamicSpec, stacks: dict[int, tuple[Any, Where]] | None = None) -> None:
        self.env = env
        self.spec = spec
        self.stacks = stacks or {}
        self.places: dict[str, _NamedSize] = {}
        for source, symbol in env.source_to_var.items():
            text, dim = self._describe(source)
            for name in filter(None, (source, dim)):
                self.places.setdefault(name, _NamedSize(text, symbol))

    def is_complete(self) -> bool:
        """Whether every guard has a line of the user's code."""
        return all(self._line(guard.sloc).file for guard in self.env.guards)

    def rewrite(self, bullet: str) -> str:
        """Rewrite one bullet of torch's message."""
        fixed = _FIXED.match(bullet)
        hinted = _HINT.match(bullet)
        if fixed or hinted:
            name, value = (fixed[1], fixed[2]) if fixed else (hinted[2], hinted[1]) if hinted else ("", "")
            text, _ = self._describe(name)
            place = self.places.get(name) or next((p for p in self.places.values() if p.text == text), None)
            line = self._guard(place.symbol) if place else Where()
            what = place.text if place else text
            return f"{what} was asked to be dynamic, but the model fixes it to {value}{_location_text(line)}"
        symbols = [place.symbol for name, place in self.places.items() if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", bullet)]
        readable = _SIZE.sub(lambda match: self._short(match[0]), bullet)
        return f"{readable}{_location_text(self._guard(*symbols))}"

    def _guard(self, *symbols: sympy.Symbol) -> Where:
        """Return the line of the last guard on all of `symbols`, else on any of them."""
        guards = [g for g in self.env.guards if g.expr.free_symbols.intersection(symbols)]
        guards.sort(key=lambda guard: len(guard.expr.free_symbols.intersection(symbols)))
        lines = [line for guard in guards if (line := self._line(guard.sloc)).file]
        return lines[-1] if lines else Where()

    def _line(self, sloc: Any) -> Where:
        if id(sloc) in self.stacks:
            return self.stacks[id(sloc)][1]
        frame = sloc.framework_loc
        if isinstance(frame, traceback.FrameSummary) and is_user_code(frame.filename):
            return code_line(frame.filename, frame.lineno or 0)
        return Where()

    def _describe(self, source: str) -> tuple[str, str | None]:
        """Describe ``L['x'].size()[0]``; return the description and the axis' name."""
        found = self._find(source)
        if found is None:
            return source, None
        index, axis = found
        leaf = self.spec.leaves[index]
        request = self.spec.axes[index].get(axis) if axis is not None else self.spec.scalars.get(index)
        name = f" ({request.name})" if request and request.name else ""
        what = f"axis {axis} of input {leaf.name}" if axis is not None else f"input {leaf.name}"
        return what + name, request.name if request else None

    def _short(self, source: str) -> str:
        found = self._find(source)
        if found is None:
            return source
        name = self.spec.leaves[found[0]].name
        return name if found[1] is None else f"{name}.shape[{found[1]}]"

    def _find(self, source: str) -> tuple[int, int | None] | None:
        match = _SIZE.fullmatch(source)
        if match is None:
            return None
        path = tuple(re.findall(r"\w+(?:[\w.]*\w)?", match["path"].replace(".", "][")))
        axis = int(match["axis"]) if match["axis"] else None
        if path[:1] == ("flat_args",):  # strict mode's name of the inputs
            return int(path[1]), axis
        known = {leaf.path: index for index, leaf in enumerate(self.spec.leaves)}
        return (known[path], axis) if path in known else None


def _retry_with_profiler(retry: Callable[[], object], spec: DynamicSpec) -> _GuardLines | None:
    """Capture again, and record the user's line of each new guard.

    Returns None if the capture succeeds this time.
    """
    stacks: dict[int, tuple[Any, Where]] = {}
    code = ShapeEnv._get_stack_summary.__code__

    def watch(frame: FrameType, event: str, result: Any) -> None:
        if event == "return" and frame.f_code is code and result is not None:
            stack = frame.f_locals.get("user_tb")  # strict mode interprets the user's frames, and stores their stack
            stacks[id(result[0])] = (result[0], _user_line(stack) if stack else user_line_above(frame))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        retry()
    except Exception as error:  # noqa: BLE001 - the failure is expected; only its ShapeEnv matters
        env = _shape_env(list(_chain(error)))
    else:
        env = None
    finally:
        sys.setprofile(before)
    return _GuardLines(env, spec, {key: entry for key, entry in stacks.items() if entry[1].file}) if env is not None else None


def _raised_at(chain: list[BaseException]) -> Where | None:
    """Return the user's line below torch.export that raised the error."""
    for error in chain:
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        inside = max((i for i, (file, _) in enumerate(frames) if file == _trace.__file__), default=len(frames))
        line = innermost_user_line(frame for frame in frames[inside:] if is_user_code(frame[0]))
        line = line if line.file else _user_line(vars(error).get("real_stack"))  # strict mode's errors have one
        if line.file:
            return line
    return None


def _user_line(stack: Any) -> Where:
    """Return the user's innermost line in a stack from strict mode."""
    return innermost_user_line((frame.filename, frame.lineno or 0) for frame in stack or () if is_user_code(frame.filename))


def _location_text(line: Where) -> str:
    return f"\n  {line}" if line.file else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _shape_env(chain: list[BaseException]) -> ShapeEnv | None:
    for error in chain:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            for value in list(frame.f_locals.values()):
                if isinstance(value, ShapeEnv):
                    return value
                if isinstance(value, torch._subclasses.FakeTensorMode) and value.shape_env is not None:
                    return value.shape_env
    return None


def _brief_message(error: BaseException, text: str) -> str:
    """Return torch's message without its advice on logging.

    In strict mode, returns the error that Dynamo wraps.
    """
    wrapped = _WRAPPED.search(text)
    if wrapped is not None:
        return f"{wrapped[1]}: {wrapped[2]}"
    summary = re.split(r"\n\s*\n|\nFor more information|\n\s*Hint:|\n\s*Developer debug", text.strip())[0]
    return f"{type(error).__name__}: {summary if len(summary) <= 600 else summary[:600] + '...'}"


def _enlargement_note(spec: DynamicSpec) -> str:
    """Return a note on the axes that were enlarged for the capture.

    It may explain the failure.
    """
    changes = describe_enlargement(spec)
    if not changes:
        return ""
    return (
        f"\nDynamic axes are captured at size 2 or more, so the example was changed: {'; '.join(changes)}. "
        "If that contradicts other inputs, pass example inputs in which every dynamic axis is 2 or more."
    )


def _suggested_fixes(text: str) -> list[str]:
    fixes = text.partition("Suggested fixes:\n")[2].partition("\n\n")[0].strip("\n")
    return [f"torch suggests: {'; '.join(line.strip() for line in fixes.splitlines())}"] if fixes else []
