"""Find the smallest program with the same outcome."""

from __future__ import annotations

import ast
import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Mapping

from .judging import Result, cause_of, judge
from .processes import Ended, in_child
from .program import Program, Statement

__all__ = ["minimised", "operators_of", "outcome_in_child"]

_SECONDS, _PATIENCE = 60.0, 90.0


def outcome_in_child(program: Program, exporter: str, seconds: float) -> Result:
    """Judge a program in a process of its own."""
    try:
        result: Result = in_child(lambda: judge(program, exporter), seconds)
        return result
    except Ended as ended:
        given = program.seed, exporter, program.frontend, program.opset
        return Result(*given, ended.outcome, ended.detail, statements=len(program.statements), source=program.reproduction)


def minimised(program: Program, result: Result, run: Callable[[Program], Result], patience: float = _PATIENCE) -> Result:
    """Remove parts of a program while its outcome remains; return the last failing result."""
    end = time.monotonic() + patience
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for candidate in _candidates(program):
            if time.monotonic() >= end:
                break
            found = run(candidate)
            if _is_same(found, result):
                program, result, smaller = candidate, found, True
                break
    return dataclasses.replace(result, operators=operators_of(program))


def _is_same(found: Result, result: Result) -> bool:
    messages = result.outcome in ("refused", "opset", "error", "invalid", "run")
    return found.outcome == result.outcome and (not messages or _kind(found) == _kind(result))


def _kind(result: Result) -> str:
    """The start of the message without what a smaller program changes."""
    return cause_of(re.sub(r"\b(node|index)[^.:,]*", "", result.detail))[:60]


def _candidates(program: Program) -> Iterator[Program]:
    """Yield programs with less in them: the largest steps first."""
    if len(program.outputs) > 1 or program.form != "tuple":
        for name in program.outputs:
            yield dataclasses.replace(program, outputs=(name,), form="tuple")
        yield dataclasses.replace(program, form="tuple")
    count = len(program.statements)
    for size in (count // 2, count // 4, 1):
        for end in range(count, 0, -size) if size else ():
            kept = program.statements[: max(end - size, 0)] + program.statements[end:]
            yield from _named(dataclasses.replace(program, statements=kept))
    for given in program.inputs:
        if len(program.inputs) > 1 and not re.search(rf"\b{given.name}\b", _text(program)):
            yield _without_axes(program, given.name, inputs=tuple(each for each in program.inputs if each is not given))
    for number, statement in enumerate(program.statements):
        for simpler in _simpler(statement):
            yield dataclasses.replace(
                program, statements=(*program.statements[:number], simpler, *program.statements[number + 1 :])
            )
    for name, axes in program.axes.items():
        for axis in axes:
            left = {**program.axes, name: {each: text for each, text in axes.items() if each != axis}}
            yield dataclasses.replace(program, axes=left)


def _named(program: Program) -> Iterator[Program]:
    """Yield a program if its outputs exist, else with the variables that do."""
    text = _text(dataclasses.replace(program, outputs=()))
    if all(re.search(rf"\b{name}\b", text + " ".join(each.name for each in program.inputs)) for name in _variables(program)):
        yield program
        return
    last = re.findall(r"^(v\d+) = ", text, re.MULTILINE)
    if last:
        yield dataclasses.replace(program, outputs=(last[-1],), form="tuple")


def _variables(program: Program) -> list[str]:
    return re.findall(r"\b[vx]\d+\b", " ".join(program.outputs))


def _text(program: Program) -> str:
    return "\n".join([*(statement.text for statement in program.statements), *program.outputs])


def _without_axes(program: Program, name: str, **changes: object) -> Program:
    axes: Mapping[str, Mapping[int, str]] = {given: each for given, each in program.axes.items() if given != name}
    return dataclasses.replace(program, axes=axes, **changes)  # type: ignore[arg-type]


def _simpler(statement: Statement) -> Iterator[Statement]:
    """Yield the parts of a statement of several lines, and another variable in place of its value."""
    lines = statement.text.splitlines()
    if len(lines) > 1 and not any(line.startswith(" ") for line in lines):
        for number in range(len(lines)):
            yield dataclasses.replace(statement, text="\n".join(lines[:number] + lines[number + 1 :]))
    indented = [line.strip() for line in lines if line.startswith(" ")]
    for line in indented:
        head = [each for each in lines if not each.startswith((" ", "if ", "for ", "else"))]
        yield dataclasses.replace(statement, text="\n".join([*head, line]))
    found = re.fullmatch(r"(v\d+) = (.+)", statement.text)
    if found is not None:
        for name in dict.fromkeys(re.findall(r"\b[vx]\d+\b", found[2])):
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
