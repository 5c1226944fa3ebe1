"""The location of a node in the user's program, and whose code a file is."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import itertools
import linecache
import os
import re
import sysconfig
import textwrap
from collections.abc import Sequence

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_BESIDE_TORCH = os.path.dirname(_TORCH[:-1]) + os.sep
_MODULES = os.path.join(_TORCH, "nn") + os.sep
_CALLING = torch.nn.modules.module.__file__
_NOT_THE_USERS = (_TORCH, "torch/", os.path.dirname(__file__) + os.sep, "<")
"""torch and onnxexp; files that torch names without their folder; code without a file, which fx generates."""
_TYPED_IN = ("<stdin>", "<ipython-input")
_STDLIB = sysconfig.get_path("stdlib") + os.sep
_PLUGINS = re.compile(r"[\\/]onnxexp_\w+[\\/]")
"""Our plugins call the user's code during a capture; their frames are never the user's."""
_PACKAGES = re.compile(r"[\\/](?:site|dist)-packages[\\/]")

_CONDITION = 8
"""The number of lines that a condition is taken to have at most."""
_MESSAGES = {"warn", "warn_once", "warning", "warning_once", "info", "debug", "print"}


@dataclasses.dataclass(frozen=True, slots=True)
class SourceLocation:
    """The location of a node in the user's program. Each field may be empty (line 0).

    Attributes:
        scope: The path of the module (``"encoder.layer.0"``).
        module: The name of the module's class.
        file, line, code: The innermost line of the user's source.
    """

    scope: str = ""
    module: str = ""
    file: str = ""
    line: int = 0
    code: str = ""

    def __str__(self) -> str:
        parts = [
            f'File "{self.file}", line {self.line}' if self.file else "",
            f"in {self.scope} ({self.module})" if self.scope else "",
        ]
        place = ", ".join(part for part in parts if part)
        return f"{place}: {self.code}" if self.code else place

    @classmethod
    def read(cls, file: str, line: int) -> SourceLocation:
        """Return a line of a file with its source text."""
        return cls(file=file, line=line, code=linecache.getline(file, line).strip())

    @property
    def is_user_code(self) -> bool:
        """Whether the file belongs to neither torch, onnxexp nor Python's library."""
        return is_user_code(self.file)

    @property
    def is_torch_nn(self) -> bool:
        """Whether the file is torch.nn's, but not the one that calls every module."""
        return is_torch_nn(self.file)

    @property
    def only_raises_or_warns(self) -> bool:
        """Whether the line is an assertion, or an ``if`` that only raises or warns."""
        return only_raises_or_warns(self.file, self.line)


@functools.lru_cache(maxsize=4096)
def is_user_code(file: str) -> bool:
    """Return whether a file belongs to neither torch, onnxexp nor Python's library."""
    if file.startswith(_NOT_THE_USERS):
        return file.startswith(_TYPED_IN)
    return not _PLUGINS.search(file) and (not file.startswith(_STDLIB) or bool(_PACKAGES.search(file)))


def is_installed(file: str) -> bool:
    """Return whether a file belongs to an installed package, as torch does."""
    return file.startswith(_BESIDE_TORCH) or bool(_PACKAGES.search(file))


def is_torch_nn(file: str) -> bool:
    """Return whether a file is torch.nn's, but not the one that calls every module."""
    return file.startswith(_MODULES) and file != _CALLING


@functools.lru_cache(maxsize=4096)
def only_raises_or_warns(file: str, line: int) -> bool:
    """Return whether a line is an assertion, or an ``if`` that only raises or warns."""
    if "_check(" in linecache.getline(file, line):
        return True
    lines = linecache.getlines(file)
    for start in range(line - 1, max(line - 1 - _CONDITION, -1), -1):  # the condition may have several lines
        if "".join(lines[start : start + 1]).lstrip().startswith(("assert ", "assert(")):
            return start == line - 1 or isinstance(_conditional(lines, line - 1), ast.Assert)
        if "".join(lines[start : start + 1]).lstrip().startswith(("if ", "if(", "elif ")):
            body, has_else = _branch(lines[start:], line - 1 - start)
            return bool(body) and (isinstance(body[-1], ast.Raise) or (not has_else and all(map(_warns, body))))
    return False


@functools.lru_cache(maxsize=4096)
def passing_truth(file: str, line: int) -> bool | None:
    """Return the truth of the tensors in a check that neither raises nor warns.

    None where the line is in no check, or where its condition has tensors of either truth.
    """
    if not only_raises_or_warns(file, line) or (statement := _conditional(linecache.getlines(file), line - 1)) is None:
        return None
    test = statement.test
    negations = [each for each in ast.walk(test) if isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not)]
    if negations and negations != [test]:
        return None
    return isinstance(statement, ast.Assert) != bool(negations)


@functools.lru_cache(maxsize=4096)
def is_handled(file: str, line: int) -> bool:
    """Return whether a line is in a ``try`` with handlers, or in a ``suppress``."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):  # a file that changed since it was imported
        return True
    for each in ast.walk(tree):
        handles = (isinstance(each, ast.Try) and each.handlers) or (
            isinstance(each, ast.With) and any("suppress(" in ast.unparse(item) for item in each.items)
        )
        if handles and each.body[0].lineno <= line <= (each.body[-1].end_lineno or 0):  # type: ignore[attr-defined]
            return True
    return False


def _conditional(lines: Sequence[str], place: int) -> ast.Assert | ast.If | None:
    """Return the assertion or ``if`` whose condition has the line at `place`."""
    for start in range(place, max(place - _CONDITION, -1), -1):
        if lines[start].lstrip().startswith(("assert ", "assert(", "if ", "if(", "elif ")):
            for end in range(place + 1, place + 1 + _CONDITION):
                block = textwrap.dedent("".join(lines[start:end])).removeprefix("el")
                with contextlib.suppress(SyntaxError, ValueError):  # the statement has more lines
                    [statement] = ast.parse(f"{block.rstrip()} pass" if block.rstrip().endswith(":") else block).body
                    return statement if isinstance(statement, (ast.Assert, ast.If)) else None
    return None


def _branch(lines: Sequence[str], place: int) -> tuple[list[ast.stmt], bool]:
    """Return the statements of the first line's ``if``, and whether it has an else.

    There are none where the line at `place` is not in its condition.
    """
    indents = [len(line) - len(line.lstrip()) for line in lines]
    following = zip(lines[1:], indents[1:], strict=True)
    within = itertools.takewhile(lambda each: each[1] > indents[0] or each[0].lstrip()[:1] in ("", "#", ")"), following)
    block = [*lines[:1], *(line for line, _ in within)]
    try:
        [statement] = ast.parse(textwrap.dedent("".join(block)).removeprefix("el")).body
    except (SyntaxError, ValueError):  # the first line is within a statement
        return [], False
    if not isinstance(statement, ast.If) or place >= (statement.test.end_lineno or 0):
        return [], False
    return statement.body, "".join(lines[len(block) : len(block) + 1]).lstrip().startswith(("else", "elif"))


def _warns(statement: ast.stmt) -> bool:
    """Return whether a statement only calls a function that shows a message."""
    function = statement.value.func if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) else None
    return isinstance(function, (ast.Name, ast.Attribute)) and ast.unparse(function).rpartition(".")[2] in _MESSAGES
