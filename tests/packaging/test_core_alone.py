"""The core alone: its requirements, its messages without plugins, its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxexp._version import __version__
from tests.packaging.conftest import Make
from tests.packaging.environments import PROJECTS, ROOT, Environment, Wheelhouse, name_of, project

OURS = """
    import importlib.metadata, importlib.util, json
    modules = {name: importlib.util.find_spec(name) is not None for name in ("onnxexp", "onnxexp_aten", "acme_ops", "torch")}
    points = [point.name for point in importlib.metadata.entry_points(group="onnxexp.plugins")]
    names = sorted(each.metadata["Name"] for each in importlib.metadata.distributions())
    print(json.dumps({"modules": modules, "plugins": points, "distributions": names}))
"""

EXPORTS = """
    import json, torch, onnxexp

    program = onnxexp.export(torch.nn.Identity(), (torch.ones(2),))
    try:
        onnxexp.export(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), (torch.ones(2, 3),))
    except onnxexp.UnsupportedOperators as error:
        print(json.dumps({"nodes": len(program.model.graph), "message": str(error), "counts": error.counts}))
"""


@pytest.fixture(scope="module")
def core(make: Make) -> Environment:
    return make("onnxexp")


def test_a_fresh_environment_lacks_all_of_it(empty: Environment) -> None:
    reported = empty.python(OURS).reported
    assert reported["modules"] == {"onnxexp": False, "onnxexp_aten": False, "acme_ops": False, "torch": True}
    assert reported["plugins"] == [] and not {name_of(folder) for folder in PROJECTS} & set(reported["distributions"])
    assert "No module named onnxexp" in empty.command("plugins", status=1).err


def test_the_core_asks_for_what_it_needs(house: Wheelhouse, tmp_path: Path) -> None:
    """pip installs nothing where torch and the other requirements are missing."""
    bare = Environment(tmp_path, house, requirements=False)
    refused = bare.install("onnxexp", status=1).err
    assert "No matching distribution found for" in refused
    assert not [path for path in bare.site.iterdir() if path.name.startswith("onnxexp")]


def test_the_core_alone_names_the_plugin_to_install(core: Environment) -> None:
    reported = core.python(EXPORTS).reported
    assert reported["nodes"] == 0
    assert "pip install onnxexp-plugin-aten" in reported["message"], reported["message"]
    assert sum(reported["counts"].values()) == 2 and all(op.startswith("aten::") for op in reported["counts"])


TRACES = """
    import json, torch, onnxexp

    def branching(x):
        return x if x.sum() > 0 else -x

    reported = {}
    scripted = torch.jit.script(torch.nn.Identity())
    for how, model, options in [
        ("trace", branching, {"capture": "trace"}), ("script", branching, {"capture": "script"}),
        ("auto", branching, {}), ("scripted", scripted, {}),
    ]:
        try:
            onnxexp.export(model, (torch.ones(2, 3),), **options)
        except onnxexp.CaptureError as error:
            reported[how] = str(error)
    print(json.dumps(reported))
"""


@pytest.mark.parametrize("installed", [pytest.param("onnxexp", marks=pytest.mark.full), "onnxexp-plugin-aten"])
def test_without_the_torchscript_plugin_the_fix_is_to_install_it(installed: str, core: Environment, make: Make) -> None:
    reported = (core if installed == "onnxexp" else make(installed)).python(TRACES).reported
    assert reported.keys() == {"trace", "script", "auto", "scripted"}
    assert {message.splitlines()[-1].strip() for message in reported.values()} == {"pip install onnxexp-plugin-torchscript"}
    assert "strict=False" in reported["auto"]


def test_the_command_answers_without_plugins(core: Environment) -> None:
    assert core.python(OURS).reported["plugins"] == []
    assert "pip install onnxexp-plugin-aten" in core.command("plugins").out
    assert core.plugins() == {}
    assert __version__ in core.command("--version").out
    settings = {setting["name"]: setting for setting in core.command("config", "--json").reported}
    assert settings["opset"] == {"name": "opset", "value": 20, "origin": "default"}


def test_the_command_is_a_script(core: Environment) -> None:
    """Not only `python -m onnxexp`: the wheel brings `onnxexp` itself."""
    script = """
        import subprocess, sys
        done = subprocess.run([sys.argv[1], "--version"], capture_output=True, text=True, check=True)
        print(done.stdout)
    """
    assert project(ROOT)["project"].get("scripts") == {"onnxexp": "onnxexp._cli:main"}
    assert core.exe("onnxexp").is_file()
    assert __version__ in core.python(script.replace("sys.argv[1]", repr(str(core.exe("onnxexp"))))).out


def test_the_templates_are_in_the_wheel(core: Environment, tmp_path: Path) -> None:
    core.command("new-plugin", "wave-ops", cwd=tmp_path)
    pack = tmp_path / "wave-ops"
    assert all((pack / name).is_file() for name in (".gitignore", ".github/workflows/test.yml", "LICENSE", "wave_ops/py.typed"))


@pytest.mark.full
def test_a_pack_from_new_plugin_builds_installs_and_lowers(core: Environment, house: Wheelhouse) -> None:
    """The templates are in the wheel, and a pack made of them is a distribution."""
    core.command("new-plugin", "wave-ops")
    built = core.folder / "built"
    core.pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", built, core.work / "wave-ops")
    (wheel,) = built.iterdir()
    core.install(wheel)
    reported = core.python("""
        import json, torch, onnxexp, wave_ops
        program = onnxexp.export(lambda x: wave_ops.snake(x, 2.0), (torch.linspace(-2, 2, 7),))
        program.verify()
        print(json.dumps(program.model.metadata_props["onnxexp.plugins"]))
    """).reported
    assert reported == "wave-ops 0.1.0"
    core.uninstall("wave-ops")
    assert core.plugins() == {}
