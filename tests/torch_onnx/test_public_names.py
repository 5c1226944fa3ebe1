"""The list of torch.onnx's public names, and the page that says what becomes of each."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.torch_onnx import names_page
from tests.torch_onnx.names_page import ABSENT, DIFFERENT, MISSING, PAGE, Row, found, outcome, page
from tests.torch_onnx.public_names import read, rows, with_release

RELEASE = torch.__version__.partition("+")[0]
listed = pytest.mark.skipif(
    not any(RELEASE in row.releases for row in rows()), reason=f"the list has other releases than {RELEASE}"
)


@listed
def test_the_list_is_that_of_the_sources() -> None:
    sources = read(Path(torch.onnx.__file__).parent)
    assert with_release(rows(), RELEASE, sources) == rows()


@listed
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m tests.torch_onnx.names_page writes it"


def test_each_reason_is_needed() -> None:
    names = {row.name for row in rows()}
    for name in DIFFERENT:
        assert name.partition(" |")[0] in names
    used = {outcome(row)[1] for row in rows()}
    assert {*ABSENT.values()} <= used and all(any(text in each for each in used) for text in DIFFERENT.values())


def test_a_name_without_a_reason_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LookupError, match="new_name is not there, and nothing says why"):
        outcome(Row("new_name", ("2.15.0",), None))
    with pytest.raises(LookupError, match=r"export_to_pretty_string|register_custom_op_symbolic lacks \['more'\]"):
        outcome(Row("register_custom_op_symbolic", ("2.15.0",), ("symbolic_name", "more")))
    monkeypatch.setitem(names_page.ABSENT, "register_custom*", "a reason")
    with pytest.raises(LookupError, match="is there, and 'a reason' is listed"):
        outcome(Row("register_custom_op_symbolic", ("2.15.0",), ("symbolic_name",)))


@pytest.mark.parametrize(
    "name", ["symbolic_opset9.quantized_add", "utils.exporter_context", "ops.attention", "testing.assert_onnx_program"]
)
def test_found(name: str) -> None:
    assert found(name) is not MISSING and found(f"{name}.no_name_of_torch") is MISSING


def test_reads_what_a_module_defines(tmp_path: Path) -> None:
    package = tmp_path / "torch" / "onnx"
    (package / "_internal").mkdir(parents=True)
    hidden = "__all__ = ['one']\ndef one(a, *, b): ...\ndef two(): ...\nclass C:\n def m(self, x): ..."
    (package / "_internal" / "names.py").write_text(hidden)
    first = "from typing import Any, TYPE_CHECKING\nfrom ._internal.names import C\nif TYPE_CHECKING:\n import os\n"
    (package / "__init__.py").write_text(f"{first}X, _Y = 1, 2\nZ = 3\n")
    (package / "names.py").write_text("from torch.onnx._internal.names import *\n")
    (package / "_hidden.py").write_text("def three(): ...")
    assert read(package) == {"": {"C": None, "Z": None}, "names": {"one": ["a", "b"]}}
