"""The page of `make compat`, its data, the versions that the code calls tested."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from onnxexp._cli.doctor_command import TESTED
from onnxexp._torch_compat import NEWEST_TESTED
from tests.compat import parts
from tests.compat.environments import FIRST, ROWS
from tests.compat.installing import InstallationError, interpreter, requirements
from tests.compat.measuring import in_slice
from tests.compat.page import PAGE, page
from tests.compat.results import Results, green, load, save
from tests.packaging.environments import OURS, ROOT, name_of, project

SUBJECTS = ("tests", "demo", "conformance", "bench")
KEYS = ("python", "torch", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "pluggy")
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_one"/>
<testcase classname="tests.a" name="test_two"><failure message="no"/></testcase>
<testcase classname="tests.a" name="test_three"><error message="no"/></testcase>
<testcase classname="tests.a" name="test_four"><skipped type="pytest.skip" message="no Korean font"/></testcase>
<testcase classname="tests.a" name="test_five"><skipped type="pytest.xfail" message="known"/></testcase>
</testsuite></testsuites>"""


def test_the_page_is_made_of_the_data() -> None:
    """If it fails, run `python -m tests.compat --page`."""
    assert PAGE.read_text("utf-8") == page(load())


def test_tested_combinations_are_those_of_green_rows() -> None:
    results = load()
    rows = [row.name for row in ROWS if all(green(results, row.name, part) for part in ("versions", *SUBJECTS))]
    expected = [{key: minor(results[name]["versions"][key]) for key in KEYS if key in results[name]["versions"]} for name in rows]
    assert list(TESTED) == expected


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def test_the_table_has_the_floors_and_the_newest_torch() -> None:
    torches = {Version(pin.partition("==")[2]) for row in ROWS for pin in row.pins if pin.startswith("torch==")}
    assert max(torches).release[:2] == NEWEST_TESTED
    (floors,) = (row for row in ROWS if row.name == "floors")
    pinned = {pin.partition("==")[0]: Version(pin.partition("==")[2]) for pin in floors.pins}
    table = project(ROOT)["project"]
    needed = [*table["dependencies"], *table["optional-dependencies"]["runtime"]]
    lowest = {
        each.name: specifier.version
        for each in map(Requirement, needed)
        for specifier in each.specifier
        if ">=" in str(specifier)
    }
    assert {name: Version(lowest[name]).release[:2] for name in pinned} == {name: pin.release[:2] for name, pin in pinned.items()}
    assert min(torches) == pinned["torch"] and {row.python for row in ROWS} == {"3.10", "3.11", "3.12", "3.13"}


def test_distributions_agree_on_the_floor_of_torch() -> None:
    floors = {
        name_of(folder): [each for each in project(folder)["project"]["dependencies"] if each.startswith("torch>=")]
        for folder in (*OURS, ROOT / "examples" / "plugin")
    }
    assert len({tuple(each) for each in floors.values()}) == 1, floors


def test_what_is_red_is_shown() -> None:
    figures = parts.counts(REPORT)
    assert figures == {
        "passed": 1, "failed": 2, "skipped": 1, "xfailed": 1, "failures": ["tests.a::test_three", "tests.a::test_two"],
        "skips": {"no Korean font": 1},
    }  # fmt: skip
    results: Results = {
        FIRST.name: {"conformance": {"samples": 1000, "passed": 990, "failing": ["a float32 export: wrong"]}},
        "newest": {
            "versions": {"python": "3.13.0", "torch": "2.15.0"},
            "tests": figures,
            "demo": {"problem": "ValueError: no"},
            "conformance": {"samples": 1000, "passed": 979, "failing": ["a float32 export: wrong", "b bool trace: crash"]},
        },
    }
    assert [green(results, "newest", part) for part in SUBJECTS] == [False, False, False, None]
    text = page(results)
    (line,) = (line for line in text.splitlines() if line.startswith("| newest |"))
    assert re.search(
        r"\*\*red\*\*: 1 passed, 2 failed, 1 skipped \| \*\*red\*\*: failed \| \*\*red\*\*: 97.9 % .*\| not run yet \|", line
    )
    assert "- Failed: `tests.a::test_two`" in text and "- demo: ValueError: no" in text
    assert "is no sample there:\n    - b bool trace: crash" in text and "- a float32" not in text
    assert "Skipped here, beside what the first row skips:\n    - 1 × no Korean font" in text
    better = copy.deepcopy(results)
    better["newest"]["conformance"]["passed"] = 980
    assert green(better, "newest", "conformance") is True


def test_a_failure_that_passes_alone_is_told() -> None:
    again = {"passed": 1, "failed": 1, "skipped": 0, "xfailed": 0, "failures": ["tests.a::test_two"], "skips": {}}
    figures = parts.with_repeated(parts.counts(REPORT), again)
    assert (figures["passed"], figures["failed"], figures["failures"]) == (2, 1, ["tests.a::test_two"])
    text = page({FIRST.name: {"tests": figures}})
    assert "- Failed beside others, and passes alone: `tests.a::test_three`" in text and "- Failed: `tests.a::test_two`" in text
    assert parts.with_repeated(figures, {"problem": "no report"}) == figures


def test_a_failure_that_a_later_commit_mends_is_told() -> None:
    again = {
        "passed": 0, "failed": 1, "skipped": 1, "xfailed": 0, "failures": ["tests.a::test_two"], "skips": {"needs torch 2.12": 1},
    }  # fmt: skip
    figures = parts.with_mended(parts.counts(REPORT), again, "abc")
    assert (figures["passed"], figures["failed"], figures["skipped"]) == (1, 1, 2)
    figures = parts.with_mended(figures, again | {"failed": 0, "passed": 1, "skipped": 0, "failures": [], "skips": {}}, "def")
    assert (figures["passed"], figures["failed"]) == (2, 0) and figures["skips"] == {"needs torch 2.12": 1, "no Korean font": 1}
    text = page({FIRST.name: {"tests": figures}})
    assert "- Repeated after a change: 1 of the tests, since abc none of them fails" in text and "since def none" in text
    assert parts.with_mended(figures, {"problem": "no report"}, "ghi") == figures


def test_results_are_kept_complete(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    assert load(file) == {}
    save({"newest": {"demo": {"commit": "abc"}}}, file)
    assert load(file) == {"newest": {"demo": {"commit": "abc"}}} and [*tmp_path.iterdir()] == [file]


def test_requirements_without_some() -> None:
    everything = requirements("dev", {})
    names = {Requirement(each).name for each in everything}
    assert {"onnxruntime", "safetensors", "pytest", "torchao", "mypy", "mkdocs"} <= names and "onnxexp" not in names
    assert {Requirement(each).name for each in requirements("dev", {"torchao": "no wheel"})} == names - {"torchao"}


def test_an_interpreter_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYENV_ROOT", "/no-such-folder")
    with pytest.raises(InstallationError, match=r"no python2\.1"):
        interpreter("2.1")


def test_the_slice_is_some_of_the_operators() -> None:
    names = ["add", "sub", "mul", "div", "sum", "prod", "mean", "sort", "fft.fft", "linalg.inv"]
    assert 0 < sum(map(in_slice, names)) < len(names)
