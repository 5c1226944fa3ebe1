"""Plugins switched on and off, and preferred, by each source of configuration.

The sources are pyproject.toml, onnxexp.toml, a variable, the command line and a call. pip has installed all packs; plugins that
are off are never imported.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.packaging.conftest import Make
from tests.packaging.environments import Environment
from tests.packaging.packs import relu_pack

SETTINGS = ("pyproject.toml", "onnxexp.toml", "variable", "command line")
ALL = {"one-pack": "on", "two-pack": "on"}

EXPORTS = """
    import contextlib, json, os, sys, torch, onnxexp

    def relus(**options):
        program = onnxexp.export(torch.nn.ReLU(), (torch.tensor([-1.0, 2.0]),), **options)
        program.verify()
        return len(program.model.graph)

    def through(setting, **options):
        \"\"\"What an export gives where this is said through a setting.\"\"\"
        if setting == "call":
            return relus(**{"without" if key == "disable" else key: value for key, value in options.items()})
        if setting == "variable":
            ((key, value),) = options.items()
            text = ",".join(f"{op}={plugin}" for op, plugin in value.items()) if isinstance(value, dict) else ",".join(value)
            os.environ["ONNXEXP_" + key.upper()] = text
            try:
                return relus()
            finally:
                del os.environ["ONNXEXP_" + key.upper()]
        text = "".join(f"{key} = {toml(value)}\\n" for key, value in options.items())
        with open(setting, "w") as file:
            file.write(("[tool.onnxexp]\\n" if setting == "pyproject.toml" else "") + text)
        try:
            return relus()
        finally:
            os.remove(setting)

    def toml(value):
        return "{" + ", ".join(f'"{k}" = "{v}"' for k, v in value.items()) + "}" if isinstance(value, dict) else json.dumps(value)

    settings = ("pyproject.toml", "onnxexp.toml", "variable", "call")
    reported = {"enable": [through(setting, plugins=["one-pack"]) for setting in settings]}
    reported["imported"] = [name for name in ("one_pack", "two_pack") if name in sys.modules]
    reported["disable"] = [through(setting, disable=["one-pack"]) for setting in settings]
    reported["prefer one"] = [through(setting, prefer={"aten::relu": "one-pack"}) for setting in settings]
    reported["prefer two"] = [through(setting, prefer={"aten::relu": "two-pack"}) for setting in settings]
    mine = onnxexp.SymbolicTable("aten")
    mine.direct({"relu": "Relu"})
    reported["the user's"] = relus(plugins=[mine, ...])
    try:
        relus()
    except onnxexp.PluginConflict as error:
        reported["conflict"] = str(error)
    print(json.dumps(reported))
"""


@pytest.fixture(scope="module")
def packs(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Provide the core and two packs that lower aten::relu: to one Relu, and to two."""
    folder = tmp_path_factory.mktemp("wheels")
    return make("onnxexp", relu_pack("one-pack", 1).wheel(folder), relu_pack("two-pack", 2).wheel(folder))


def states(packs: Environment, setting: str, folder: Path, key: str, *names: str, status: int = 0) -> dict[str, str]:
    """Return the states of `onnxexp plugins` where a setting names these plugins."""
    if setting == "command line":
        argument = {"plugins": "--plugins", "disable": "--without"}[key]
        return packs.states(argument, ",".join(names), cwd=folder, status=status)
    if setting == "variable":
        return packs.states(cwd=folder, status=status, **{f"ONNXEXP_{key.upper()}": ",".join(names)})
    section = "[tool.onnxexp]\n" if setting == "pyproject.toml" else ""
    (folder / setting).write_text(f"{section}{key} = {json.dumps(names)}\n")
    inner = folder / "inner"
    inner.mkdir(exist_ok=True)
    return packs.states(cwd=inner, status=status)


@pytest.mark.parametrize("setting", SETTINGS)
def test_enable_and_disable(packs: Environment, setting: str, tmp_path: Path) -> None:
    assert packs.states(cwd=tmp_path) == ALL, "installed is on"
    assert states(packs, setting, tmp_path, "plugins", "two-pack") == ALL | {"one-pack": "off"}
    assert states(packs, setting, tmp_path, "plugins", "two-pack", "...") == ALL
    assert states(packs, setting, tmp_path, "disable", "two-pack") == ALL | {"two-pack": "off"}


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_unknown_name_is_told_with_the_nearest(packs: Environment, setting: str, tmp_path: Path) -> None:
    listing = {"cwd": tmp_path}
    if setting == "command line":
        err = packs.command("plugins", "--without", "one-pak", **listing).err  # type: ignore[arg-type]
    elif setting == "variable":
        err = packs.command("plugins", **listing, ONNXEXP_DISABLE="one-pak").err  # type: ignore[arg-type]
    else:
        (tmp_path / setting).write_text(("[tool.onnxexp]\n" if setting == "pyproject.toml" else "") + 'disable = ["one-pak"]\n')
        err = packs.command("plugins", **listing).err  # type: ignore[arg-type]
        assert str(tmp_path / setting) in err
    assert "no plugin 'one-pak' (did you mean 'one-pack'?)" in err, err
    if setting == "variable":
        assert "`disable` of ONNXEXP_DISABLE has no effect" in err


def test_exports_through_each_setting(packs: Environment) -> None:
    """Each source gives one result; without a choice, two claims are an error."""
    reported = packs.python(EXPORTS).reported
    assert reported["enable"] == [1, 1, 1, 1] and reported["imported"] == ["one_pack"], "what is off is not imported"
    assert reported["disable"] == [2, 2, 2, 2]
    assert reported["prefer one"] == [1, 1, 1, 1] and reported["prefer two"] == [2, 2, 2, 2]
    assert reported["the user's"] == 1
    conflict = reported["conflict"]
    assert all(part in conflict for part in ("'one-pack' (one-pack 1.0)", "'two-pack' (two-pack 1.0)", "aten::relu", "prefer"))


OVERRIDES = """
    import json, torch, onnxexp

    def relus(**options):
        return len(onnxexp.export(torch.nn.ReLU(), (torch.ones(2),), **options).model.graph)

    reported = [relus(without=["four-pack"]), relus(without=["four-pack"], prefer={"aten::relu": "one-pack"})]
    try:
        relus()
    except onnxexp.PluginConflict as error:
        reported.append(str(error))
    print(json.dumps(reported))
"""


@pytest.mark.full
@pytest.mark.parametrize("order", [1, -1], ids=["in order", "in reverse order"])
def test_an_override_wins_in_any_order_of_installation(make: Make, tmp_path: Path, order: int) -> None:
    wheels = [relu_pack("one-pack", 1).wheel(tmp_path), relu_pack("three-pack", 3, override=True).wheel(tmp_path),
              relu_pack("four-pack", 4, override=True).wheel(tmp_path)]  # fmt: skip
    environment = make("onnxexp")
    for wheel in wheels[::order]:
        environment.install(wheel)
    overridden, preferred, conflict = environment.python(OVERRIDES).reported
    assert (overridden, preferred) == (3, 1)
    assert "'four-pack'" in conflict and "'three-pack'" in conflict and "'one-pack'" not in conflict, "two override: an error"
    claims = environment.command("plugins", "--without", "four-pack", "--json", "why", "aten::relu").reported["claims"]
    assert [claim["plugin"] for claim in claims] == ["three-pack", "one-pack"] and claims[0]["chosen"]
