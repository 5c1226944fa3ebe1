"""Why torch.export refused, in a few lines: which input, which axis, and the user's own source line.

API:
    explain(error, spec, retry=None) -> str      `retry` captures once more, to find lines that torch did not keep

torch's ShapeEnv knows where each guard came from; it is taken from the frames of the exception's traceback. What it keeps is
the innermost frame, often torch's own. Then `retry` runs under a profile function of this thread, which sees the whole stack
when a guard is made. Both happen only when the export has failed already.
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

from onnxexp.capture.example_inputs import enlarged
from onnxexp.capture.source_lines import calling_line, code_line, is_users, last_line, where
from onnxexp.graph import Where
from onnxexp.request.dynamic_shapes import DynamicSpec

__all__ = ["explain"]

_BULLET = re.compile(r"^\s*- (.*)$", re.MULTILINE)
_SIZE = re.compile(r"(?:L|inputs)(?P<path>(?:\[[^\]]*\]|\.(?!shape\b|size\b)\w+)*)(?:\.size\(\)|\.shape)?(?:\[(?P<axis>\d+)\])?")
_FIXED = re.compile(r"^You marked (.+?) as dynamic but your code specialized it to be a constant \((-?\d+)\)")
_WRAPPED = re.compile(r"got (\w+)\(['\"](.*?)['\"]\)$", re.MULTILINE)
_HINT = re.compile(r"^Received user-specified dim hint .*(?:static shape|hint) of (-?\d+) for dimension (.+)\.$")


def explain(error: BaseException, spec: DynamicSpec, retry: Callable[[], object] | None = None) -> str:
    """The reason of a failed capture for people: no traceback, no logging flags.

    Args:
        error: What torch.export raised.
        spec: What was asked to be dynamic.
        retry: Runs the failed capture again; called at most once, and only where it can add a source line.
    """
    text = str(error).partition("\nThe error above occurred when calling torch.export")[0]
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, GuardOnDataDependentSymNode):
            return _data_dependent(link, text)
    bullets = _BULLET.findall(text) if "onstraints violated" in text or "conflicts between user-specified" in text else []
    env = _shape_env(chain)
    if not bullets or env is None:
        line = _raised_at(chain) or where({"stack_trace": text})
        return f"{_said(error, text)}{_at(line)}{_changes(spec)}"
    lines = _Lines(env, spec)
    if retry is not None and not lines.known():
        lines = _watched(retry, spec) or lines
    told = "\n".join(lines.tell(bullet) for bullet in bullets)
    if all(_FIXED.match(bullet) or _HINT.match(bullet) for bullet in bullets):
        return f"{told}\nChange that line so that it works at any size, or leave the axis out of dynamic_shapes / dynamic_axes."
    strict = 'A Dim is proven over its whole range; a name ("batch") or Dim.DYNAMIC asks only that the axis is not fixed.'
    return "\n".join([told, *_fixes(text), strict])


def _data_dependent(error: GuardOnDataDependentSymNode, text: str) -> str:
    line = _raised_at([error]) or where({"stack_trace": text})
    return (
        f"the model decides in Python by a value that is known only at run time ({error.cond}){_at(line)}\n"
        "Write it with torch.where or torch.cond, state what holds with torch._check, or compile that part with torch.jit.script."
    )


@dataclasses.dataclass(frozen=True)
class _Place:
    text: str
    symbol: sympy.Symbol


class _Lines:
    """The sizes of a failed capture: what to call them, and the source line of each guard on them."""

    def __init__(self, env: ShapeEnv, spec: DynamicSpec, stacks: dict[int, tuple[Any, Where]] | None = None) -> None:
        self.env = env
        self.spec = spec
        self.stacks = stacks or {}
        self.places: dict[str, _Place] = {}
        for source, symbol in env.source_to_var.items():
            text, dim = self._describe(source)
            for name in filter(None, (source, dim)):
                self.places.setdefault(name, _Place(text, symbol))

    def known(self) -> bool:
        """Whether every guard's line is the user's."""
        return all(self._line(guard.sloc).file for guard in self.env.guards)

    def tell(self, bullet: str) -> str:
        """One of torch's bullets, rewritten."""
        fixed = _FIXED.match(bullet)
        hinted = _HINT.match(bullet)
        if fixed or hinted:
            name, value = (fixed[1], fixed[2]) if fixed else (hinted[2], hinted[1]) if hinted else ("", "")
            text, _ = self._describe(name)
            place = self.places.get(name) or next((p for p in self.places.values() if p.text == text), None)
            line = self._guard(place.symbol) if place else Where()
            return f"{place.text if place else text} was asked to be dynamic, but the model fixes it to {value}{_at(line)}"
        symbols = [place.symbol for name, place in self.places.items() if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", bullet)]
        readable = _SIZE.sub(lambda match: self._short(match[0]), bullet)
        return f"{readable}{_at(self._guard(*symbols))}"

    def _guard(self, *symbols: sympy.Symbol) -> Where:
        """The line of the last guard that is about all of `symbols`, else of one about any of them."""
        guards = [g for g in self.env.guards if g.expr.free_symbols.intersection(symbols)]
        guards.sort(key=lambda guard: len(guard.expr.free_symbols.intersection(symbols)))
        lines = [line for guard in guards if (line := self._line(guard.sloc)).file]
        return lines[-1] if lines else Where()

    def _line(self, sloc: Any) -> Where:
        if id(sloc) in self.stacks:
            return self.stacks[id(sloc)][1]
        frame = sloc.framework_loc
        if isinstance(frame, traceback.FrameSummary) and is_users(frame.filename):
            return code_line(frame.filename, frame.lineno or 0)
        return Where()

    def _describe(self, source: str) -> tuple[str, str | None]:
        """``L['x'].size()[0]`` in words, and the name of the Dim there."""
        found = self._find(source)
        if found is None:
            return source, None
        index, axis = found
        leaf = self.spec.leaves[index]
        wanted = self.spec.axes[index].get(axis) if axis is not None else self.spec.scalars.get(index)
        name = f" ({wanted.name})" if wanted and wanted.name else ""
        what = f"axis {axis} of input {leaf.name}" if axis is not None else f"input {leaf.name}"
        return what + name, wanted.name if wanted else None

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
        if path[:1] == ("flat_args",):  # what strict mode calls the inputs
            return int(path[1]), axis
        known = {leaf.path: index for index, leaf in enumerate(self.spec.leaves)}
        return (known[path], axis) if path in known else None


def _watched(retry: Callable[[], object], spec: DynamicSpec) -> _Lines | None:
    """Capture again, noting the user's line of each guard as it is made; None if that went differently."""
    stacks: dict[int, tuple[Any, Where]] = {}
    code = ShapeEnv._get_stack_summary.__code__

    def watch(frame: FrameType, event: str, result: Any) -> None:
        if event == "return" and frame.f_code is code and result is not None:
            stack = frame.f_locals.get("user_tb")  # strict mode interprets the user's frames, and keeps their stack
            stacks[id(result[0])] = (result[0], _kept(stack) if stack else calling_line(frame))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        retry()
    except Exception as error:  # noqa: BLE001 - it failed before, and how it fails now is what we look at
        env = _shape_env(list(_chain(error)))
    else:
        env = None
    finally:
        sys.setprofile(before)
    return _Lines(env, spec, {key: entry for key, entry in stacks.items() if entry[1].file}) if env is not None else None


def _raised_at(chain: list[BaseException]) -> Where | None:
    """The user's line below torch.export from which the error came."""
    for error in chain:
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        inside = max((i for i, (file, _) in enumerate(frames) if file == _trace.__file__), default=len(frames))
        line = last_line(frame for frame in frames[inside:] if is_users(frame[0]))
        line = line if line.file else _kept(vars(error).get("real_stack"))  # of strict mode's errors
        if line.file:
            return line
    return None


def _kept(stack: Any) -> Where:
    """The user's last line in a stack that strict mode has kept."""
    return last_line((frame.filename, frame.lineno or 0) for frame in stack or () if is_users(frame.filename))


def _at(line: Where) -> str:
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


def _said(error: BaseException, text: str) -> str:
    """What went wrong, without torch's advice on logging; in strict mode the error that dynamo wraps."""
    wrapped = _WRAPPED.search(text)
    if wrapped is not None:
        return f"{wrapped[1]}: {wrapped[2]}"
    kept = re.split(r"\n\s*\n|\nFor more information|\n\s*Hint:|\n\s*Developer debug", text.strip())[0]
    return f"{type(error).__name__}: {kept if len(kept) <= 600 else kept[:600] + '...'}"


def _changes(spec: DynamicSpec) -> str:
    """That the example was not captured as it is, where that may be the reason."""
    changes = enlarged(spec)
    if not changes:
        return ""
    return (
        f"\nAxes that are to be dynamic are captured at size 2 or more, so the example was changed: {'; '.join(changes)}. "
        "If that contradicts other inputs, give example inputs in which every dynamic axis is 2 or more."
    )


def _fixes(text: str) -> list[str]:
    fixes = text.partition("Suggested fixes:\n")[2].partition("\n\n")[0].strip("\n")
    return [f"torch suggests: {'; '.join(line.strip() for line in fixes.splitlines())}"] if fixes else []
