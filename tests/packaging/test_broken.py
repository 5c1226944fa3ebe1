"""Broken packs: errors have distribution, version, entry point, cause and fix."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.conftest import Make
from tests.packaging.environments import Environment
from tests.packaging.packs import Pack, relu_pack

HOOK = """
    import onnxexp

    class Pack:
        @onnxexp.hookimpl
        def {hook}: ...

    plugin = Pack()
"""

BROKEN = {
    "raising": (
        "raise RuntimeError('no such accelerator')\n",
        ["RuntimeError: no such accelerator", "raising_pack:plugin", "/raising_pack/__init__.py:1"],
    ),
    "lacking": ("import no_such_module_at_all\n", ["ModuleNotFoundError", "no_such_module_at_all", "__init__.py:1"]),
    "garbled": ("def (\n", ["SyntaxError", "/garbled_pack/__init__.py:1"]),
    "empty": ("", ["AttributeError", "empty_pack:plugin"]),
    "wrong": ("plugin = 3\n", ["neither a SymbolicTable nor an object with hooks"]),
    "listed": ("class plugin:\n    symbolics = ['relu']\n", ["`symbolics` contain 'relu', which is no SymbolicTable"]),
    "misspelt": (HOOK.format(hook="pre_pass(self, optoins)"), ["pre_pass", "optoins", "/misspelt_pack/__init__.py:5"]),
    "unknown": (HOOK.format(hook="pre_passes(self, options)"), ["no hook 'pre_passes' (did you mean 'pre_pass'?)", ".py:"]),
    "nameless": ("", ["does not load", "nameless_pack:no attribute's name"]),
}
"""Name, module, and what its error says besides whose it is."""
TWINS = ("twin-one", "twin-two")

EXPORTS = """
    import json, os, torch, warnings, onnxexp

    def export(**options):
        try:
            return len(onnxexp.export(torch.nn.ReLU(), (torch.ones(2),), **options).model.graph)
        except onnxexp.OnnxExporterError as error:
            return str(error)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        reported = {"all": export(), "good": export(plugins=["good-pack"])}
    reported["left out"] = [str(each.message) for each in warned]
    reported |= {name: [export(plugins=[name]) for _ in range(2)] for name in names}
    os.environ["ONNXEXP_STRICT_PLUGINS"] = "1"
    reported["strict"] = export()
    print(json.dumps(reported))
"""


@pytest.fixture(scope="module")
def broken(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Provide a sound pack, broken ones, and two with one plugin name."""
    folder = tmp_path_factory.mktemp("wheels")
    packs = [Pack(f"{name}-pack", source) for name, (source, _) in BROKEN.items()]
    packs += [Pack(name, relu_pack(name, 1).source, plugin="twin") for name in TWINS]
    environment = make("onnxexp", *(pack.wheel(folder) for pack in (relu_pack("good-pack", 1), *packs)))
    (points,) = environment.site.glob("nameless_pack-*.dist-info/entry_points.txt")
    points.write_text(points.read_text().replace(":plugin", ":no attribute's name"))  # some versions of pip would not install it
    return environment


def names() -> list[str]:
    return [f"{name}-pack" for name in BROKEN]


@pytest.mark.full
def test_a_broken_pack_is_left_out_unless_it_is_asked_for(broken: Environment) -> None:
    """Each pack twice: a failed import must not pass for a plugin the second time."""
    reported: dict[str, Any] = broken.python(f"names = {names()}\n{textwrap.dedent(EXPORTS)}").reported
    assert reported["all"] == reported["good"] == 1, "broken packs do no harm"
    left_out = [line for line in reported["left out"] if "The export goes on without it" in line]
    assert len(left_out) == len(reported["left out"]) == len(BROKEN) + len(TWINS)
    assert all(any(f"({name} 1.0" in line for line in left_out) for name in (*names(), *TWINS))
    assert "twin: twin-two 1.0 has a plugin of this name too: uninstall one" in reported["strict"]
    for name, (_, parts) in BROKEN.items():
        first, second = reported[f"{name}-pack"]
        assert isinstance(first, str), f"{name}: an export came of it"
        assert first == second
        assert all(part in first for part in (f"'{name}-pack'", f"{name}-pack 1.0", *parts)), f"{name}: {first}"
        assert "does not load" not in first or f"without=['{name}-pack']" in first, "the fix"


@pytest.mark.full
def test_the_list_shows_them_all_in_isolation(broken: Environment) -> None:
    listed = broken.command("plugins", "--load", "--json", status=1).reported
    states = {(each["name"], each["distribution"]): each["state"] for each in listed}
    assert states == {
        ("good-pack", "good-pack"): "loaded",
        **{("twin", name): "refused" for name in TWINS},
        **{(name, name): "broken" for name in names()},
    }
    reasons = {each["name"]: each["reason"] for each in listed}
    for name, (_, parts) in BROKEN.items():
        assert all(part in reasons[f"{name}-pack"] for part in parts), reasons[f"{name}-pack"]


def test_a_broken_pack_is_switched_off_or_uninstalled(broken: Environment) -> None:
    """Both fixes that the error names work."""
    plain = broken.states(status=1)
    assert plain["raising-pack"] == "on" and plain["twin"] == "refused", "without loading, a broken pack is like any other"
    off = broken.states("--without", ",".join([*names(), "twin"]))
    assert [name for name, state in off.items() if state == "on"] == ["good-pack"]


@pytest.mark.full
def test_one_of_two_twins_uninstalled_repairs_the_other(make: Make, tmp_path: Path) -> None:
    environment = make("onnxexp", *(Pack(name, relu_pack(name, 1).source, plugin="twin").wheel(tmp_path) for name in TWINS))
    assert environment.states(status=1) == {"twin": "refused"}
    environment.uninstall("twin-one")
    assert environment.states() == {"twin": "on"} and environment.plugins()["twin"]["distribution"] == "twin-two"


@pytest.mark.full
def test_a_pack_that_exits_does_not_end_the_export_without_a_word(make: Make, tmp_path: Path) -> None:
    """Such a pack is a script that was meant to be run, not imported."""
    environment = make("onnxexp", Pack("exit-pack", "import sys\nsys.exit(3)\n").wheel(tmp_path))
    script = f"names = ['exit-pack']\n{textwrap.dedent(EXPORTS)}".replace('export(plugins=["good-pack"])', "0")
    reported = environment.python(script).reported
    texts = (*reported["left out"], reported["strict"], *reported["exit-pack"])
    assert len(texts) == 4 and all("exit-pack 1.0" in text and "SystemExit: 3" in text for text in texts)
    assert "(exit-pack 1.0) is installed but off: it does not load" in reported["all"]
    (listed,) = environment.plugins("--load", status=1).values()
    assert listed["state"] == "broken"


@pytest.mark.full
@pytest.mark.parametrize("left", ["empty", "entry points", "garbage"])
def test_what_a_failed_installation_left_stops_nothing_else(make: Make, tmp_path: Path, left: str) -> None:
    """Metadata without a name, or with unreadable entry points, hides no plugin."""
    environment = make("onnxexp", relu_pack("good-pack", 1).wheel(tmp_path))
    folder = environment.site / "rest-1.0.dist-info"
    folder.mkdir()
    if left != "empty":
        text = "[onnxexp.plugins]\nrest = rest:plugin\n" if left == "entry points" else "\0[[[\nonnxexp.plugins\n= =\n"
        (folder / "entry_points.txt").write_text(text)
    assert environment.states(status=None)["good-pack"] == "on"
