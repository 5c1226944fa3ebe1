"""Shorten torch.export errors to the input, the axis and the user's source line.

`explain` finds the ShapeEnv in the exception's traceback. `record_guard_sources` has stored the user's line of each guard there.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import _trace
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, PendingUnbackedSymbolNotFound, ShapeEnv

from onnxexp._capture.example_inputs import enlargement_note
from onnxexp._capture.source_lines import innermost_user_line, metadata_location
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._source_location import SourceLocation, is_user_code
from onnxexp._torch_export.frozen_sizes import loop_fix
from onnxexp._torch_export.guard_warnings import source_of
from onnxexp._torch_export.symbol_names import size_label

_BULLET = re.compile(r"^\s*- (.*)$", re.MULTILINE)
_SIZE = re.compile(r"(?:L|inputs)(?P<path>(?:\[[^\]]*\]|\.(?!shape\b|size\b)\w+)*)(?:\.size\(\)|\.shape)?(?:\[(?P<axis>\d+)\])?")
_FIXED = re.compile(r"^You marked (?P<size>.+?) as dynamic but your code specialized it to be a constant \((?P<value>-?\d+)\)")
_WRAPPED = re.compile(r"got (\w+)\(['\"](.*?)['\"]\)$", re.MULTILINE)
_HINT = re.compile(r"^Received user-specified dim hint .*(?:static shape|hint) of (?P<value>-?\d+) for dimension (?P<size>.+)\.$")
_KERNEL_FIX = "Give it numbers and sizes that do not depend on values, or state the condition with torch._check."
_BRANCH_FIX = "Use torch.where or torch.cond, state the condition with torch._check, or compile that part with torch.jit.script."
_INDEX_FIX = (
    "To index a list or tuple of tensors by it, use torch.stack(items)[i]. To repeat a part so often, use torch.while_loop, or "
    "compile that part with torch.jit.script."
)
_INSIDE = "torch.export fails inside of torch, where the model itself runs"
_OF_TORCH = (LookupError, AssertionError, AttributeError, PendingUnbackedSymbolNotFound)
"""Errors of torch's own code in a capture: the model has run on the example without them."""


def branches_on_values(error: BaseException) -> bool:
    """Return whether the model branches on a run-time value.

    The capture of such a model fails in every mode and at every size.
    """
    # a number alone, as in x[int(i)], may do in strict mode
    return any(isinstance(link, GuardOnDataDependentSymNode) and not link.cond.is_Symbol for link in _chain(error))


def explain(error: BaseException, spec: DynamicSpec, changed: Sequence[str], before: BaseException | None = None) -> str:
    """Explain a failed capture without tracebacks and logging flags.

    `changed` are the enlarged axes. `before` is the failure of the attempt before, since a failure of strict mode has no
    traceback through torch's kernels.
    """
    text = str(error).partition("\nThe error above occurred when calling torch.export")[0]
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, GuardOnDataDependentSymNode):
            line = _raised_at([link], text)
            operator = next(filter(None, map(_operator, (link, *_chain(before)))), "")
            if link.cond.is_Symbol and not operator:
                what = "the model needs a Python number, as an index or a count, where the value is known only at run time"
                return f"{what} ({link.cond}){line}\n{_INDEX_FIX}"
            who = f"{operator} branches" if operator else "the model branches in Python"
            fix = _KERNEL_FIX if operator else _BRANCH_FIX
            return f"{who} on a value that is known only at run time ({link.cond}){line}\n{fix}"
    bullets = _BULLET.findall(text) if "onstraints violated" in text or "conflicts between user-specified" in text else []
    env = _shape_env(chain)
    if not bullets or env is None:
        within = f"{_INSIDE}: " if any(isinstance(link, _OF_TORCH) for link in chain) else ""
        return f"{within}{_brief_message(error, text)}{_raised_at(chain, text)}{enlargement_note(changed)}"
    guards = _GuardLines(env, spec)
    reasons = "\n".join(map(guards.rewrite, bullets))
    if all(_FIXED.match(bullet) or _HINT.match(bullet) for bullet in bullets):
        leave_out = "or leave the axis out of dynamic_shapes / dynamic_axes"
        return f"{reasons}\nChange that line so that it works at any size, {leave_out}{loop_fix(reasons)}."
    strict = 'A Dim is proven over its whole range; for a name ("batch") or Dim.DYNAMIC it suffices that the axis is not fixed.'
    fixes = text.partition("Suggested fixes:\n")[2].partition("\n\n")[0].strip("\n")
    suggested = [f"torch suggests: {'; '.join(line.strip() for line in fixes.splitlines())}"] if fixes else []
    return "\n".join([reasons, *suggested, strict])


class _GuardLines:
    """The symbolic sizes of a failed capture, with the line of each guard."""

    def __init__(self, env: ShapeEnv, spec: DynamicSpec) -> None:
        self.guards = env.guards
        self.spec = spec
        self.sizes: dict[str, tuple[str, sympy.Symbol]] = {}  # text and symbol by torch's name of a size, and by the user's
        for source, symbol in env.source_to_var.items():
            text, dim = self._describe(source)
            for name in filter(None, (source, dim)):
                self.sizes.setdefault(name, (text, symbol))

    def rewrite(self, bullet: str) -> str:
        """Rewrite one bullet of torch's message."""
        match = _FIXED.match(bullet) or _HINT.match(bullet)
        if match is not None:
            text, _ = self.sizes.get(match["size"]) or self._describe(match["size"])
            symbols = [symbol for described, symbol in self.sizes.values() if described == text]
            return f"{text} was asked to be dynamic, but the model fixes it to {match['value']}{self._line(symbols[:1])}"
        symbols = [symbol for name, (_, symbol) in self.sizes.items() if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", bullet)]
        return f"{_SIZE.sub(lambda size: self._short(size[0]), bullet)}{self._line(symbols)}"

    def _line(self, symbols: list[sympy.Symbol]) -> str:
        """Return the line of the last guard on all of `symbols`, else on any of them."""
        guards = [guard for guard in self.guards if guard.expr.free_symbols.intersection(symbols)]
        guards.sort(key=lambda guard: len(guard.expr.free_symbols.intersection(symbols)))
        lines = [source.users for guard in guards if (source := source_of(guard)) is not None and source.users.file]
        return _location_text(lines[-1]) if lines else ""

    def _describe(self, source: str) -> tuple[str, str | None]:
        """Describe ``L['x'].size()[0]``, and return the description and the axis' name."""
        found = self._find(source)
        if found is None:
            return source, None
        index, axis = found
        leaf = self.spec.leaves[index]
        request = self.spec.axes[index].get(axis) if axis is not None else self.spec.scalars.get(index)
        return size_label(leaf, axis, request), request.name if request else None

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


def _raised_at(chain: list[BaseException], text: str) -> str:
    """Return the user's line that raised the error, else the one in its text."""
    for error in chain:
        frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        inside = max((i for i, (file, _) in enumerate(frames) if file == _trace.__file__), default=len(frames))
        stack = vars(error).get("real_stack") or ()  # strict mode's errors have one
        for part in (frames[inside:], [(frame.filename, frame.lineno or 0) for frame in stack]):
            line = innermost_user_line(frame for frame in part if is_user_code(frame[0]))
            if line.file:
                return _location_text(line)
    return _location_text(metadata_location({"stack_trace": text}))


def _operator(error: BaseException) -> str:
    """Return the operator of torch whose kernel needs a value, else ""."""
    if isinstance(error, GuardOnDataDependentSymNode):
        for frame, _ in traceback.walk_tb(error.__traceback__):
            called = frame.f_locals.get("func") if frame.f_code.co_name == "__torch_dispatch__" else None
            if isinstance(called, torch._ops.OpOverload):
                return str(called).removesuffix(".default").replace(".", "::", 1)
    return ""


def _location_text(line: SourceLocation) -> str:
    return f"\n  {line}" if line.file else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _shape_env(chain: list[BaseException]) -> ShapeEnv | None:
    frames = (frame for error in chain for frame, _ in traceback.walk_tb(error.__traceback__))
    values = (value for frame in frames for value in list(frame.f_locals.values()))
    envs = (value.shape_env if isinstance(value, torch._subclasses.FakeTensorMode) else value for value in values)
    return next((env for env in envs if isinstance(env, ShapeEnv)), None)


def _brief_message(error: BaseException, text: str) -> str:
    """Return torch's message, or the error that Dynamo wraps, without advice."""
    wrapped = _WRAPPED.search(text)
    if wrapped is not None:
        return f"{wrapped[1]}: {wrapped[2]}"
    summary = re.split(r"\n\s*\n|\nFor more information|\n\s*Hint:|\n\s*Developer debug", text.strip())[0]
    return f"{type(error).__name__}: {summary if len(summary) <= 600 else summary[:600] + '...'}"
