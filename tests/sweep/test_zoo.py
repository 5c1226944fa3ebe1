"""The zoo file, its mistakes, and the cells that it makes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

import onnxexp
from onnxexp import OptionError
from onnxexp_sweep.cell_list import cells_of
from onnxexp_sweep.zoo import EXPORT_OPTIONS, Zoo, read, read_bytes
from tests.core.commanding import install
from tests.sweep.rows import VERSIONS

ZOO = """
[sweep]
opset = [17, 20]
frontend = ["export", "trace"]
time = 30
memory = "2 GB"

[variants.plain]
[variants.specification]
target = "onnx"

[models.one]
target = "nowhere:one"
sizes = [{ batch = 5 }]

[models.two]
target = "nowhere:two"
opset = [20, 23]
frontend = ["trace"]
verify = false
options = { check_sizes = false }
time = 5.5
rtol = 1e-3
atol = 0
"""


def zoo(folder: Path, text: str) -> Zoo:
    path = folder / "zoo.toml"
    path.write_text(text, "utf-8")
    return read(path)


def test_every_model_with_every_option_is_a_cell(tmp_path: Path) -> None:
    found = zoo(tmp_path, ZOO)
    cells = cells_of(found, found.opsets, found.frontends, time=found.time, memory=found.memory)
    one = [f"one/{opset}/{frontend}/{name}" for opset in (17, 20) for frontend in ("export", "trace") for name in found.variants]
    assert [cell.name for cell in cells] == [*one, "two/20/trace/plain", "two/20/trace/specification"]
    first, last = cells[0], cells[-1]
    assert (first.time, first.memory, first.model.verify, first.model.sizes) == (30, 2_000_000_000, "repeated", ({"batch": 5},))
    assert (last.time, last.model.verify, last.options) == (5.5, "", {"check_sizes": False, "target": "onnx"})
    assert (last.model.rtol, last.model.atol, first.model.rtol, first.model.atol) == (1e-3, 0, None, None)
    assert json.loads(json.dumps(first.job(VERSIONS)))["options"] == {}


def test_the_key_depends_on_what_the_result_depends_on(tmp_path: Path) -> None:
    def keys(text: str, versions: dict[str, str] = VERSIONS) -> list[str]:
        found = zoo(tmp_path, text)
        return [cell.key(versions) for cell in cells_of(found, found.opsets, found.frontends, time=found.time)]

    (tmp_path / "nowhere.py").write_text("one = 1\n", "utf-8")
    first = keys(ZOO)
    assert len({*first}) == len(first) == 10
    assert keys(ZOO) == first
    assert keys(ZOO.replace("time = 30", "time = 60")) == first, "a limit is no part of the result"
    assert not {*keys(ZOO, VERSIONS | {"torch": "2.14.0"})} & {*first}
    changed = keys(ZOO.replace("batch = 5", "batch = 6"))
    assert changed[8:] == first[8:] and not {*changed[:8]} & {*first}
    (tmp_path / "nowhere.py").write_text("one = 2\n", "utf-8")
    assert not {*keys(ZOO)} & {*first}, "the source of the model has changed"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("opset = [17, 20]", "opsets = [17, 20]", r"\[sweep\] has an unknown key 'opsets' \(did you mean 'opset'\?\)"),
        ("[sweep]", "[sweeps]", r"the file has an unknown key 'sweeps' \(did you mean 'sweep'\?\)"),
        ("sizes =", "size =", r"\[models.one\] has an unknown key 'size' \(did you mean 'sizes'\?\)"),
        ("verify = false", "verify = 'size'", r"\[models.two\] has verify = 'size': expected false or one of example"),
        ("check_sizes", "check_size", r"options of \[models.two\] has an unknown key 'check_size' \(did you mean 'check_sizes'"),
        ('target = "onnx"', 'targt = "onnx"', r"\[variants.specification\] has an unknown key 'targt' \(did you mean 'target'"),
        ('["trace"]', '["traced"]', r"\[models.two\] has frontend = \['traced'\]: expected a list of auto, export, trace"),
        ('"2 GB"', '"2 giga"', r"\[sweep\] has memory = '2 giga': expected a size"),
        ("time = 5.5", "time = true", r"\[models.two\] has time = True: expected a number of seconds"),
        ('target = "nowhere:two"', "", r"\[models.two\] has no target"),
        ('"nowhere:two"', '"two"', r"the target 'two' is neither MODULE:FACTORY nor a file nor hf:FOLDER"),
        ('"nowhere:two"', '"two.py:make"', r"\[models.two\]: there is no file .*two.py"),
        ('"nowhere:two"', '"hf:two"', r"there is no .*two\n.*\[models.two\] has no task: a target hf: needs one"),
        ('"nowhere:two"', '"model:two"', r"no plugin has a model 'model:two'"),
        ("[sweep]", '[sweep]\nplugins = ["nowhere"]', r"lists the plugin 'nowhere'.* which has no entry points of the group"),
        ("[sweep]", "[sweep]\npreload = ['a b']", r"\[sweep\] has preload = \['a b'\]: expected a list of modules, such as"),
        ("rtol = 1e-3", "rtol = -1", r"\[models.two\] has rtol = -1: expected a number, such as 1e-4"),
        ("[sweep]", "[sweep", r"is not valid TOML: "),
    ],
)  # fmt: skip
def test_a_mistake_is_named(tmp_path: Path, before: str, after: str, expected: str) -> None:
    assert before in ZOO
    with pytest.raises(OptionError, match=f"(?s){expected}"):
        zoo(tmp_path, ZOO.replace(before, after))


def test_all_mistakes_are_listed(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        zoo(tmp_path, ZOO.replace("opset =", "opsets =").replace("\nsizes =", "\nsize ="))
    assert str(caught.value).count("unknown key") == 3 and "nothing was run" in str(caught.value)


def test_a_missing_or_empty_file(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot be read: No such file"):
        read(tmp_path / "zoo.toml")
    with pytest.raises(OptionError, match="it has no models"):
        zoo(tmp_path, "")


def test_the_models_of_a_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "geo", "geo:table", more="[onnxexp.models]\ntrack = geo.models:track\nroute = geo.models:route\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = zoo(tmp_path, '[sweep]\nplugins = ["geo-pack"]\n[models.mine]\ntarget = "model:route"\nverify = false\n')
    targets = {model.name: model.target for model in found.models}
    assert targets == {"track": "geo.models:track", "route": "geo.models:route", "mine": "geo.models:route"}
    with pytest.raises(OptionError, match="'model:rout' \\(did you mean 'model:route'\\?\\)"):
        zoo(tmp_path, '[models.mine]\ntarget = "model:rout"\n')


def test_the_options_are_those_of_export() -> None:
    set_by_the_sweep = {"model", "args", "f", "kwargs", "opset_version", "capture", "verify"}
    assert {*EXPORT_OPTIONS} == {*inspect.signature(onnxexp.export).parameters} - set_by_the_sweep


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8 GB", 8 * 10**9),
        ("8GiB", 8 << 30),
        ("1.5 mb", 1_500_000),
        ("300", 300),
        (300, 300),
        ("0", None),
        ("GB", None),
        (True, None),
    ],
)
def test_sizes_in_bytes(text: str | int, expected: int | None) -> None:
    assert read_bytes(text) == expected
