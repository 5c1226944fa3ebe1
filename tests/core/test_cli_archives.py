"""Files of torch.export: honest ones load, hostile ones do not run."""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._export.serde.schema import SCHEMA_VERSION
from torch.export import Dim

from onnxexp import OptionError
from onnxexp._cli.pt2_archive import load_archive
from tests.core.commanding import run
from tests.torch_versions import needs_torch

X = torch.arange(12.0).reshape(3, 4)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.shift = torch.ones(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.scale + self.shift


class Branches(nn.Module):
    def forward(self, x: torch.Tensor, *, more: dict[str, list[torch.Tensor]]) -> dict[str, Any]:
        y = torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))
        return {"y": y.reshape(-1, 2), "size": (x.shape[0] * 2 + 1, None), "more": more["a"][0] * 2}


class Fractions(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        rows = x.shape[0]
        larger = nn.functional.interpolate(x[None, None], scale_factor=1.5, mode="nearest")
        wide = nn.functional.pad(x, (rows % 3, max(rows // 2, 1)))
        return larger, wide, x[::2], nn.functional.avg_pool1d(x.t(), 2, 2, ceil_mode=True), x.new_ones(int(rows * 0.5) + 1)


class Strange(nn.Module):
    """Odd names, sizes that depend on values, an OrderedDict."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"a b": nn.Linear(4, 4), "b-c": nn.Linear(4, 4)})

    def forward(self, input: torch.Tensor) -> Any:
        y = self.parts["b-c"](self.parts["a b"](input))
        found = (y > 0).nonzero()
        half = y[: y.shape[0] // 2 + 1]
        return collections.OrderedDict(found=found, half=half, largest=torch.sym_max(y.shape[0], 2))


def saved(path: Path, model: nn.Module = Plain(), kwargs: Any = None, dynamic: Any = None) -> Path:  # noqa: B008
    torch.export.save(torch.export.export(model, (X,), kwargs, dynamic_shapes=dynamic), path)
    return path


@pytest.mark.parametrize(
    ("model", "kwargs", "dynamic"),
    [
        (Plain(), None, None),
        (Plain(), None, {"x": {0: Dim("batch", max=64)}}),
        (Branches(), {"more": {"a": [torch.ones(2)]}}, {"x": {0: Dim.DYNAMIC}, "more": {"a": [None]}}),
        (Fractions(), None, {"x": {0: Dim.DYNAMIC}}),
        (Strange(), None, {"input": {0: Dim.DYNAMIC}}),
    ],
    ids=["static", "dynamic", "branches", "fractions", "strange"],
)
def test_honest_files_load(tmp_path: Path, model: nn.Module, kwargs: Any, dynamic: Any) -> None:
    program = load_archive(saved(tmp_path / "model.pt2", model, kwargs, dynamic))
    given, expected = (program.module()(X, **(kwargs or {})), model(X, **(kwargs or {})))
    torch.testing.assert_close(given, expected)


# Hostile files: each change below makes `torch.export.load` (or what is done with its result) run the file's code.


class Bomb:
    """Unpickles by writing a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return (Path.write_text, (self.marker, "ran"))


def rewritten(path: Path, change: Callable[[str, bytes], bytes], more: dict[str, bytes] | None = None) -> None:
    """Rewrite the file with changed records."""
    with zipfile.ZipFile(path) as archive:
        records = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    writer = torch._C.PyTorchFileWriter(str(path))
    for name, data in {**records, **(more or {})}.items():
        if not name.startswith(".data") and name != "byteorder":
            changed = change(name, data)
            writer.write_record(name, changed, len(changed))
    writer.write_end_of_file()


def change_json(part: str, change: Callable[[Any], None]) -> Callable[[str, bytes], bytes]:
    def changed(name: str, data: bytes) -> bytes:
        if not name.endswith(part):
            return data
        value = json.loads(data)
        change(value)
        return json.dumps(value).encode()

    return changed


def pickled(marker: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(((Bomb(marker),), {}), buffer)
    return buffer.getvalue()


def python(marker: Path) -> str:
    return f"__import__('pathlib').Path({str(marker)!r}).write_text('ran')"


def in_example(path: Path, marker: Path) -> None:
    rewritten(path, lambda name, data: pickled(marker) if name.startswith("data/sample_inputs/") else data)


def in_weights(path: Path, marker: Path) -> None:
    def change(config: Any) -> None:
        config["config"]["scale"].update(use_pickle=True, path_name="bomb")

    rewritten(path, change_json("model_weights_config.json", change), {"data/weights/bomb": pickled(marker)})


def in_old_weights(path: Path, marker: Path) -> None:
    rewritten(path, lambda name, data: data, {"data/weights/model.pt": pickled(marker)})


def in_constants(path: Path, marker: Path) -> None:
    def change(config: Any) -> None:
        config["config"]["bomb"] = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}

    rewritten(
        path, change_json("model_constants_config.json", change), {"data/constants/opaque_obj_0": pickle.dumps(Bomb(marker))}
    )


def in_sizes(path: Path, marker: Path) -> None:
    def change(model: Any) -> None:
        sizes = model["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
        sizes[0] = {"as_expr": {"expr_str": python(marker), "hint": {"as_int": 3}}}

    rewritten(path, change_json("models/model.json", change))


def in_names(path: Path, marker: Path) -> None:
    evil = f"x = {python(marker)}"

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {evil if key == "x" else key: rename(child) for key, child in value.items()}
        if isinstance(value, list):
            return [rename(child) for child in value]
        return evil if value == "x" else value

    def change(model: Any) -> None:
        model.update(rename(model))

    rewritten(path, change_json("models/model.json", change))


def in_structure(path: Path, marker: Path) -> None:
    context = json.dumps([{"__enum__": True, "fqn": "bomb_module:Kind", "name": "A"}])
    structured(path, marker, "builtins.dict", context)


def in_factory(path: Path, marker: Path) -> None:
    names = {"default_factory_module": "bomb_module", "default_factory_name": "Kind", "dict_context": ["y"]}
    structured(path, marker, "collections.defaultdict", names)


def structured(path: Path, marker: Path, kind: str, context: Any) -> None:
    """Rewrite the file so that the container of its outputs names a module."""
    (path.parent / "bomb_module.py").write_text(python(marker) + "\nimport enum\nclass Kind(enum.Enum):\n    A = 1\n")
    sys.modules.pop("bomb_module", None)

    def change(model: Any) -> None:
        signature = model["graph_module"]["module_call_graph"][0]["signature"]
        leaf = {"type": None, "context": None, "children_spec": []}
        signature["out_spec"] = json.dumps([1, {"type": kind, "context": context, "children_spec": [leaf]}])

    rewritten(path, change_json("models/model.json", change))


def in_older_format(path: Path, marker: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        (model,) = (archive.read(name) for name in archive.namelist() if name.endswith("models/model.json"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", ".".join(map(str, SCHEMA_VERSION)))
        archive.writestr("serialized_exported_program.json", model)
        for name in ("state_dict.pt", "constants.pt", "example_inputs.pt"):
            archive.writestr(f"serialized_{name}", pickled(marker))


HOSTILE = [in_example, in_weights, in_old_weights, in_constants, in_sizes, in_names, in_structure, in_factory, in_older_format]


@pytest.fixture
def hostile(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Provide a hostile file, and the file that appears when its code runs."""
    monkeypatch.syspath_prepend(tmp_path)
    path, marker = saved(tmp_path / "hostile.pt2"), tmp_path / "marker"
    request.param(path, marker)
    return path, marker


@pytest.mark.parametrize("hostile", HOSTILE, indirect=True)
def test_hostile_files_are_refused(hostile: tuple[Path, Path]) -> None:
    path, marker = hostile
    with pytest.raises(OptionError, match="might run code from the file.*pass --allow-pickle"):
        load_archive(path)
    assert not marker.exists()


RUN_BY_TORCH = [
    pytest.param(each, marks=needs_torch((2, 13), "it does not unpickle opaque objects")) if each is in_constants else each
    for each in HOSTILE
]


@pytest.mark.parametrize("hostile", RUN_BY_TORCH, indirect=True)
def test_hostile_files_are_hostile(hostile: tuple[Path, Path]) -> None:
    """torch runs the files that the check refuses, or the test above shows nothing."""
    path, marker = hostile
    try:
        load_archive(path, trusted=True).module()
    except Exception as error:  # noqa: BLE001 - the file may be of no use once its code has run
        print(error)
    assert marker.exists()


@pytest.mark.parametrize("hostile", [in_example], indirect=True)
def test_the_command_needs_a_flag(hostile: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    path, marker = hostile
    arguments = ["export", str(path), "-o", str(path.parent / "model.onnx")]
    ran = run(capsys, *arguments)
    assert ran.status == 2 and "pass --allow-pickle" in ran.err and not marker.exists()
    run(capsys, *arguments, "--allow-pickle")
    assert marker.exists()


def test_compiled_libraries(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.pt2")
    rewritten(path, lambda name, data: data, {"data/aotinductor/model/evil.so": b"\x7fELF"})
    with pytest.raises(OptionError, match="it contains a compiled library"):
        load_archive(path)


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.load_library", "torch.ops.aten.add.__globals__", "torch.os.system", "torch.load", "torch.hub.load",
        "_operator.call",
        "_operator.attrgetter", "_operator.methodcaller", "math.__loader__.load_module", "os.system", "torch.ops.a.b.c.d", "",
    ],
)  # fmt: skip
@pytest.mark.parametrize("trusted", [False, True])
def test_targets_that_are_no_operators(tmp_path: Path, target: str, trusted: bool) -> None:
    """torch's own verifier refuses such targets without a call."""
    path, marker = saved(tmp_path / "model.pt2"), tmp_path / "marker"

    def change(model: Any) -> None:
        graph = model["graph_module"]["graph"]
        graph["tensor_values"]["evil"] = graph["tensor_values"]["x"]
        argument = {"name": "", "arg": {"as_string": f"echo ran > {marker}"}, "kind": 1}
        node = {"target": target, "inputs": [argument], "outputs": [{"as_tensor": {"name": "evil"}}], "metadata": {}}
        graph["nodes"].insert(0, {**node, "is_hop_single_tensor_return": None, "name": "evil"})

    rewritten(path, change_json("models/model.json", change))
    with pytest.raises(OptionError):
        load_archive(path, trusted=trusted)
    assert not marker.exists()


def test_arguments_that_are_no_operators(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.pt2")

    def change(model: Any) -> None:
        model["graph_module"]["graph"]["nodes"][0]["inputs"][0]["arg"] = {"as_operator": "torch.os.system"}

    rewritten(path, change_json("models/model.json", change))
    with pytest.raises(OptionError, match=r"it passes 'torch.os.system', which is no operator"):
        load_archive(path)


@pytest.mark.parametrize(
    "size",
    [
        "s0.__class__",
        "(lambda: 1)()",
        "[1][0]",
        "eval('1')",
        "Symbol('a b')",
        "Symbol(f'{1}')",
        "s0 if 1 else 2",
        "s0; 1",
        "x:=1",
    ],
)
def test_sizes_that_are_no_arithmetic(tmp_path: Path, size: str) -> None:
    path = saved(tmp_path / "model.pt2", dynamic={"x": {0: Dim("batch")}})

    def change(model: Any) -> None:
        model["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = size

    rewritten(path, change_json("models/model.json", change))
    with pytest.raises(OptionError, match="is not a valid size"):
        load_archive(path)


@pytest.mark.parametrize("trusted", [False, True])
def test_guards_are_dropped(tmp_path: Path, trusted: bool) -> None:
    path, marker = saved(tmp_path / "model.pt2"), tmp_path / "marker"

    def change(model: Any) -> None:
        model["guards_code"] = [python(marker)]

    rewritten(path, change_json("models/model.json", change))
    load_archive(path, trusted=trusted).module()(X)
    assert marker.exists() is trusted


def test_the_environment_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    path, marker = saved(tmp_path / "hostile.pt2"), tmp_path / "marker"
    in_example(path, marker)
    with pytest.raises(OptionError, match="more than tensors"):
        load_archive(path)
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1" and "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ
    assert not marker.exists()


def test_the_format_of_an_older_torch(tmp_path: Path) -> None:
    path, marker = tmp_path / "old.pt2", tmp_path / "marker"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "8.20")
        for name in ("exported_program.json", "state_dict.pt", "constants.pt", "example_inputs.pt"):
            archive.writestr(f"serialized_{name}", pickled(marker))
    with pytest.raises(OptionError, match="it has the format of an older torch.*pass --allow-pickle"):
        load_archive(path)
    assert not marker.exists()


def test_what_is_malformed(tmp_path: Path) -> None:
    for part, change in {
        "models/model.json": lambda model: model.pop("graph_module"),
        "model_weights_config.json": lambda config: config.update(config=[]),
        "model_constants_config.json": lambda config: config.update(config={"a": 1}),
    }.items():
        path = saved(tmp_path / "model.pt2")
        rewritten(path, change_json(part, change))
        with pytest.raises(OptionError, match="contains no program that this version of torch can load"):
            load_archive(path)


def test_what_is_no_program(tmp_path: Path) -> None:
    missing, text, other = tmp_path / "missing.pt2", tmp_path / "text.pt2", tmp_path / "weights.pt2"
    text.write_text("no archive")
    torch.save({"x": X}, other)
    with pytest.raises(OptionError, match="there is no file"):
        load_archive(missing)
    for path in (text, other):
        with pytest.raises(OptionError, match="contains no program that this version of torch can load"):
            load_archive(path)
