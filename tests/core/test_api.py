"""The public surface: eight modules, whose names are listed once and whose signatures are in a snapshot."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import traceback

import pytest

import onnxexp
from tests.core.api import DOORS, SNAPSHOT, text


def test_the_signatures_are_those_of_the_snapshot() -> None:
    assert text() == SNAPSHOT.read_text("utf-8"), "a public name has changed: run `python -m tests.core.api --write`"


@pytest.mark.parametrize("door", DOORS)
def test_each_name_is_listed_for_type_checkers_and_at_run_time(door: str) -> None:
    module = importlib.import_module(door)
    tree = ast.parse(inspect.getsource(module))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onnxexp")]
    imported = {alias.asname or alias.name for node in imports for alias in node.names} - {"lazy_names", "_errors", "*"}
    errors = importlib.import_module("onnxexp._errors").__all__ if door == "onnxexp" else ()
    assert {*module.__all__} == imported | {*errors}
    assert len({*module.__all__}) == len(module.__all__)
    assert {*module.__all__} <= {*dir(module)}
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_a_name_that_no_module_has() -> None:
    with pytest.raises(AttributeError, match=r"module 'onnxexp.graph' has no attribute 'Grpah'"):
        importlib.import_module("onnxexp.graph").Grpah


def test_errors_have_their_public_name() -> None:
    error = onnxexp.OptionError("text")
    assert traceback.format_exception_only(error) == ["onnxexp.OptionError: text\n"]
    assert type(pickle.loads(pickle.dumps(error))) is onnxexp.OptionError
