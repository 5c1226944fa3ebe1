"""Find the smallest program with the same outcome."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Iterator

from .judging import Result, cause_of, judge
from .processes import Ended, in_child
from .program import Program, Statement

_PATIENCE = 25.0
_VARIABLE = re.compile(r"\b[vx]\d+\b")
_ASSIGNED = re.compile(r"^ *((?:v\d+(?:, | = ))*v\d+)(?:, [_*]\w*)? = ", re.MULTILINE)


def outcome_in_child(program: Program, exporter: str, seconds: float) -> Result:
    """Judge a program in a process of its own."""
    try:
        result: Result = in_child(lambda: judge(program, exporter), seconds)
        return result
    except Ended as ended:
        given = program.seed, exporter, program.frontend, program.opset
        return Result(*given, ended.outcome, ended.detail, statements=len(program.statements), source=program.reproduction)


def minimised(program: Program, result: Result, run: Callable[[Program], Result], patience: float = _PATIENCE) -> Result:
    """Remove parts of a program while the outcome remains; return the last failure."""
    end = time.monotonic() + patience
    before = None
    while before != program and time.monotonic() < end:
        before = program
        for reductions in (
            _fewer_outputs,
            _slices,
            _fewer_statements,
            _fewer_inputs,
            _simpler_statements,
            _without_copies,
            _fewer_axes,
        ):
            tried = 0
            while time.monotonic() < end:
                candidate = next(itertools.islice(reductions(program), tried, None), None)
                if candidate is None:
                    break
                found = run(candidate) if _is_complete(candidate) else None
                if found is not None and _is_same(found, result):
                    program, result = candidate, found
                else:
                    tried += 1
    return dataclasses.replace(result, operators=operators_of(program))


def _is_same(found: Result, result: Result) -> bool:
    messages = result.outcome in ("refused", "opset", "error", "invalid", "run")
    return found.outcome == result.outcome and (not messages or _kind(found) == _kind(result))


def _kind(result: Result) -> str:
    """Return the start of the message, without what a smaller program changes."""
    return cause_of(re.sub(r"\b(node|index)[^.:,]*", "", result.detail), result.source)[:80]


def _fewer_outputs(program: Program) -> Iterator[Program]:
    if len(program.outputs) > 1 or program.form != "tuple":
        for name in program.outputs:
            yield dataclasses.replace(program, outputs=(name,), form="tuple")
        yield dataclasses.replace(program, form="tuple")


def _slices(program: Program) -> Iterator[Program]:
    """Yield programs of only the statements that assign or mention needed names."""
    for writes in (False, True):
        needed, kept = set(_VARIABLE.findall(" ".join(program.outputs))), list[Statement]()
        for statement in reversed(program.statements):
            names = set(_VARIABLE.findall(statement.text))
            if not needed.isdisjoint(names if writes else _assigned(statement.text)):
                needed |= names
                kept.insert(0, statement)
        if len(kept) < len(program.statements):
            yield dataclasses.replace(program, statements=tuple(kept))


def _fewer_statements(program: Program) -> Iterator[Program]:
    """Yield programs without some of the statements: halves, quarters, single ones."""
    count = len(program.statements)
    for size in dict.fromkeys((count // 2, count // 4, 1)):
        for end in range(count, 0, -size) if size else ():
            kept = dataclasses.replace(program, statements=program.statements[: max(end - size, 0)] + program.statements[end:])
            last = _assigned(_text(kept))
            yield kept
            if last and kept.outputs != (last[-1],):
                yield dataclasses.replace(kept, outputs=(last[-1],), form="tuple")


def _fewer_inputs(program: Program) -> Iterator[Program]:
    for given in program.inputs if len(program.inputs) > 1 else ():
        axes = {name: each for name, each in program.axes.items() if name != given.name}
        kept = tuple(each for each in program.inputs if given.name not in (each.name, each.same_as))
        yield dataclasses.replace(program, inputs=kept, axes=axes)


def _simpler_statements(program: Program) -> Iterator[Program]:
    for number, statement in enumerate(program.statements):
        for simpler in _simpler(statement):
            yield dataclasses.replace(
                program, statements=(*program.statements[:number], simpler, *program.statements[number + 1 :])
            )


def _without_copies(program: Program) -> Iterator[Program]:
    """Yield programs without a copy such as ``v2 = v1``, with one name for the other."""
    for number, statement in enumerate(program.statements):
        found = re.fullmatch(r"(v\d+) = ([vx]\d+)", statement.text)
        if found is not None:
            left = program.statements[:number] + program.statements[number + 1 :]
            old, new = rf"\b{found[1]}\b", found[2]
            statements = tuple(dataclasses.replace(each, text=re.sub(old, new, each.text)) for each in left)
            yield dataclasses.replace(
                program, statements=statements, outputs=tuple(re.sub(old, new, each) for each in program.outputs)
            )


def _fewer_axes(program: Program) -> Iterator[Program]:
    for name, axes in program.axes.items():
        for axis in axes:
            left = {**program.axes, name: {each: text for each, text in axes.items() if each != axis}}
            yield dataclasses.replace(program, axes=left)


def _is_complete(program: Program) -> bool:
    """Return whether each variable is assigned before it is used."""
    known = {given.name for given in program.inputs}
    for text in [*(statement.text for statement in program.statements), " ".join(program.outputs)]:
        for line in text.splitlines():
            found = _ASSIGNED.match(line.strip())
            value = line.strip()[found.end() :] if found else line
            if not known.issuperset(_VARIABLE.findall(value)):
                return False
            known.update(_assigned(line))
    return True


def _assigned(text: str) -> list[str]:
    """Return the variables that a text assigns."""
    return _VARIABLE.findall(" ".join(_ASSIGNED.findall(text)))


def _text(program: Program) -> str:
    return "\n".join([*(statement.text for statement in program.statements), *program.outputs])


def _simpler(statement: Statement) -> Iterator[Statement]:
    """Yield parts of a longer statement, and another variable in place of its value."""
    lines = statement.text.splitlines()
    if len(lines) > 1 and not any(line.startswith(" ") for line in lines):
        for number in range(len(lines)):
            yield dataclasses.replace(statement, text="\n".join(lines[:number] + lines[number + 1 :]))
    indented = [line.strip() for line in lines if line.startswith(" ")]
    head = [each for each in lines if not each.startswith((" ", "if ", "for ", "else"))]
    for line in indented:
        yield dataclasses.replace(statement, text="\n".join([*head, line]))
    found = re.fullmatch(r"(v\d+) = (.+)", statement.text)
    if found is not None:
        for name in dict.fromkeys(_VARIABLE.findall(found[2])):
            if found[2] != name:
                yield Statement(f"{found[1]} = {name}")


def operators_of(program: Program) -> str:
    """Return the names of the operators in a program's statements, sorted."""
    names = set()
    for node in ast.walk(ast.parse(_text(program))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names.add(node.func.attr)
        elif isinstance(node, ast.Subscript) and not (isinstance(node.value, ast.Attribute) and node.value.attr == "shape"):
            names.add("[]=" if isinstance(node.ctx, ast.Store) else "[]")
        elif isinstance(node, ast.BinOp | ast.AugAssign):
            names.add(type(node.op).__name__ + ("=" if isinstance(node, ast.AugAssign) else ""))
        elif isinstance(node, ast.Compare):
            names.add(type(node.ops[0]).__name__)
        elif isinstance(node, ast.For | ast.If):
            names.add(type(node).__name__.lower())
    return " ".join(sorted(names - {"size", "tensor", "register_buffer"}))
