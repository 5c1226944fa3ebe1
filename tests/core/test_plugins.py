"""Finding, selecting and loading plugins, with distributions made on the spot."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from importlib_metadata import Distribution, EntryPoints

import onnxexp
from onnxexp import PluginConflict, PluginLoadError, SymbolicTable
from onnxexp._cli.loaded_plugins import load_all
from onnxexp._plugins.discovery import discover, record_hash, states
from onnxexp._plugins.loading import load
from onnxexp._request.config import load as configured
from tests.core.packs import TABLE, install


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a folder of distributions on sys.path, outside the working directory."""
    (tmp_path / "site").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "site"


def state(name: str, **options: Any) -> tuple[str, str]:
    return next((each.state, each.reason) for each in states(configured(**options)) if each.found.name == name)


def loaded(*names: Any) -> tuple[onnxexp._plugins.loading.Plugin, ...]:  # type: ignore[name-defined]
    return load(configured(plugins=list(names))).loaded


# Discovery


def test_a_plugin_is_found_by_its_entry_point(installed: Path) -> None:
    install(installed, "good-pack", {"__init__": TABLE}, "good_pack:table")
    (plugin,) = loaded("good-pack")
    assert (plugin.name, plugin.origin, len(plugin.tables), plugin.hooks) == ("good-pack", "good-pack 1.0", 1, ())
    assert "good-pack" in [found.name for found in discover()]


def test_an_entry_point_that_names_no_object(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes when the plugin is loaded.

    importlib-metadata 8 and 9 raise it for the whole distribution already when its entry points are listed.
    """
    install(installed, "odd-pack", {"__init__": ""}, "odd_pack:no attribute's name")
    install(installed, "sound-pack", {"__init__": TABLE}, "sound_pack:table")
    lazy = Distribution.entry_points

    def eager(distribution: Distribution) -> EntryPoints:
        points = lazy.__get__(distribution)
        if distribution.name == "odd-pack":
            raise ValueError("Invalid object reference", points)
        return points

    monkeypatch.setattr(Distribution, "entry_points", property(eager))
    found = {each.name: each for each in discover() if each.name in ("odd-pack", "sound-pack")}
    assert found["odd-pack"].value == "odd_pack:no attribute's name" and found["sound-pack"].point.load().namespace == "mine"
    with pytest.raises(PluginLoadError, match="'odd-pack' .* does not load: .*no attribute's name"):
        loaded("odd-pack")


def test_what_is_installed_between_two_exports_is_noticed(installed: Path) -> None:
    def there() -> bool:
        return "late-pack" in [plugin.name for plugin in load(configured()).loaded]

    os.utime(installed, (1, 1))  # the folder's time changes with what is in it, though not within one tick of the clock
    assert not there()
    metadata = install(installed, "late-pack", {"__init__": TABLE}, "late_pack:table")
    assert there()
    os.utime(installed, (2, 2))
    assert there()
    metadata.rename(installed / "late_pack" / "metadata")
    assert not there()


def test_a_model_written_beside_the_script_causes_no_search(installed: Path) -> None:
    found = discover()
    (installed / "model.onnx").write_bytes(b"")
    os.utime(installed, (3, 3))
    assert discover() is found


def test_finding_imports_nothing(installed: Path) -> None:
    install(installed, "never-pack", {"__init__": "raise RuntimeError('imported')\n"}, "never_pack:table")
    assert state("never-pack") == ("on", "")
    assert state("never-pack", disable=["never-pack"])[0] == "off"
    load(configured(plugins=["..."], disable=["never-pack"]))
    assert "never_pack" not in sys.modules


def test_nothing_is_found_in_the_working_directory(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(Path.cwd(), "here-pack", {"__init__": TABLE}, "here_pack:table")
    for entry in ("", str(Path.cwd()), os.path.relpath(Path.cwd())):
        monkeypatch.syspath_prepend(entry)
    assert "here-pack" not in [found.name for found in discover()]


def test_a_module_of_the_working_directory_does_not_stand_in(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(installed, "shadow-pack", {"__init__": TABLE}, "shadow_pack:table")
    Path("shadow_pack.py").write_text("raise SystemExit('run')\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    with pytest.raises(PluginLoadError, match="'shadow_pack' would be loaded from the working directory"):
        loaded("shadow-pack")


def test_two_distributions_with_one_name_are_refused(installed: Path) -> None:
    for number in "12":
        install(installed, f"twin{number}", {"__init__": TABLE}, f"twin{number}:table", plugin="twin")
    assert state("twin")[0] == "refused"
    message = r"twin2 1.0 has a plugin of this name too: uninstall one"
    with pytest.warns(UserWarning, match=rf"'twin' \(twin1 1.0\) is refused: {message}.*The export goes on without it"):
        assert "twin" not in [plugin.name for plugin in load(configured()).loaded]
    for asked in ({"strict_plugins": True}, {"plugins": ["twin"]}):
        with pytest.raises(PluginLoadError, match=f"twin: {message}"):
            load(configured(**asked))
    assert state("twin", disable=["twin"])[0] == "off"


# Selection


def test_what_is_selected(installed: Path) -> None:
    for name in ("pack-a", "pack-b", "pack-c"):
        install(installed, name, {"__init__": TABLE.replace("mine", name[-1])}, f"{name.replace('-', '_')}:table")

    def on(**options: Any) -> str:
        names = [each.found.name for each in states(configured(**options)) if each.state == "on"]
        return "".join(name[-1] for name in names if name.startswith("pack-"))

    assert on() == "abc" and on(disable=["pack-b"]) == "ac"
    assert on(plugins=["pack-b"]) == "b" and on(plugins=[]) == ""
    assert on(plugins=["pack-b", ...]) == on(plugins=["..."]) == "abc"
    assert on(plugins=[..., SymbolicTable("x")], disable=["pack-a"]) == "bc"


def test_a_missing_plugin_is_told_with_the_nearest_installed_one(installed: Path) -> None:
    install(installed, "good-pack2", {"__init__": TABLE}, "good_pack2:table")
    with pytest.raises(PluginLoadError, match=r"no plugin 'good-pack3' \(did you mean 'good-pack2'\?\), which the call names"):
        load(configured(plugins=["good-pack3"]))
    Path("onnxexp.toml").write_text('plugins = ["good-pack3"]\n')
    with pytest.raises(PluginLoadError, match="which .*onnxexp.toml names"):
        load(configured())


def test_what_is_switched_off_may_be_absent(installed: Path) -> None:
    """Colleagues share a configuration and have different packs."""
    install(installed, "good-pack5", {"__init__": TABLE}, "good_pack5:table")
    Path("onnxexp.toml").write_text('disable = ["good-pack6"]\nskip_passes = ["good-pack6/fold"]\n')
    with pytest.warns(UserWarning, match="has no effect") as caught:
        onnxexp.export(torch.relu, (torch.ones(2),))
    messages = sorted(str(each.message) for each in caught)
    assert "onnxexp.toml has no effect: no plugin 'good-pack6' (did you mean 'good-pack5'?) is installed" in messages[0]
    assert "`skip_passes` has no effect on 'good-pack6/fold'" in messages[1] and len(messages) == 2
    with pytest.raises(onnxexp.OptionError, match="skip_passes: there is no pass 'aten/fold'"):
        onnxexp.export(torch.relu, (torch.ones(2),), skip_passes=["aten/fold"], without=["good-pack6"])


def test_prefer_must_name_an_installed_plugin(installed: Path) -> None:
    install(installed, "good-pack4", {"__init__": TABLE}, "good_pack4:table")
    with pytest.raises(PluginLoadError, match=r"no plugin 'good-pack' \(did you mean 'good-pack4'\?\)"):
        load(configured(prefer={"mine::relu": "good-pack"}))


def test_a_lock_refuses_what_it_does_not_name(installed: Path) -> None:
    install(installed, "Locked.Pack", {"__init__": TABLE}, "locked_pack:table", plugin="locked")
    digest = record_hash(next(found for found in discover() if found.name == "locked"))
    aten = ["onnxexp-plugin-aten"]
    assert state("locked", allow=["locked-pack", *aten])[0] == "on"
    assert state("locked", allow=[f"locked_pack@{digest}", *aten])[0] == "on"
    assert state("locked", allow=aten) == (
        "refused",
        "the distribution Locked.Pack is not allowed by the lock `allow` of the call",
    )
    (installed / "locked_pack" / "__init__.py").write_text(TABLE + "# changed\n")
    assert "are not those allowed" in state("locked", allow=[f"locked_pack@{digest}"])[1]
    Path("onnxexp.toml").write_text('allow = ["onnxexp-plugin-aten"]\n')
    assert state("locked", allow=["locked-pack"])[0] == "refused", "a call does not unlock what the project locks"
    with pytest.raises(
        PluginLoadError, match=r"(?s)locked: the distribution Locked.Pack is not allowed .*lift the lock, or switch"
    ):
        load(configured(plugins=["locked"]))
    assert load(configured(disable=["locked"], plugins=[])).loaded == ()
    assert "locked_pack" not in sys.modules


# Loading


def test_a_plugin_that_fails_to_load_says_so_each_time(installed: Path) -> None:
    broken = "from half_pack.table import table\nraise RuntimeError('no such accelerator')\n"
    install(installed, "half-pack", {"__init__": broken, "table": TABLE}, "half_pack:table")
    for _ in range(2):
        with pytest.raises(PluginLoadError, match="half-pack 1.0.*half_pack:table.*RuntimeError: no such accelerator.*without="):
            loaded("half-pack")


def test_an_export_goes_on_without_a_broken_plugin(installed: Path) -> None:
    install(installed, "torn-pack", {"__init__": "raise RuntimeError('no such accelerator')\n"}, "torn_pack:table")
    hooks = "import onnxexp\nclass Pack:\n    @onnxexp.hookimpl\n    def pre_passes(self): ...\ntable = Pack()\n"
    install(installed, "worn-pack", {"__init__": hooks}, "worn_pack:table")
    with pytest.warns(UserWarning, match="The export goes on without it") as warned:
        onnxexp.export(torch.relu, (torch.ones(2),)).verify()
    messages = sorted(str(each.message) for each in warned)
    assert [message.count("strict_plugins = true") for message in messages] == [1, 1]
    assert "'torn-pack' (torn-pack 1.0, " in messages[0] and "RuntimeError: no such accelerator" in messages[0]
    assert "'worn-pack' (worn-pack 1.0): there is no hook 'pre_passes'" in messages[1]
    expected = pytest.raises(onnxexp.UnsupportedOperators, match="'torn-pack' .* it does not load")
    with pytest.warns(UserWarning, match="torn-pack"), expected:
        onnxexp.export(torch.relu, (torch.ones(2),), without=["aten"])


@pytest.mark.parametrize("asked", [{"strict_plugins": True}, {"plugins": ["bent-pack"]}, {"prefer": {"aten::relu": "bent-pack"}}])
def test_a_broken_plugin_that_is_asked_for_is_an_error(installed: Path, asked: dict[str, Any]) -> None:
    install(installed, "bent-pack", {"__init__": "raise RuntimeError('no such accelerator')\n"}, "bent_pack:table")
    with pytest.raises(PluginLoadError, match=r"'bent-pack' \(bent-pack 1.0, .*RuntimeError: no such accelerator"):
        load(configured(**asked))


def test_two_plugins_that_conflict_stop_only_models_with_their_operators(installed: Path) -> None:
    source = "import onnxexp\ntable = onnxexp.SymbolicTable('aten')\ntable.direct({'relu': 'Relu'})\n"
    install(installed, "other-relu", {"__init__": source}, "other_relu:table")
    conflict = "'aten' .* and the plugin 'other-relu' .* both lower aten::relu. Choose one"
    with pytest.warns(UserWarning, match=conflict):
        onnxexp.export(torch.neg, (torch.ones(2),)).verify()
    with pytest.warns(UserWarning, match=conflict), pytest.raises(PluginConflict, match=conflict):
        onnxexp.export(torch.relu, (torch.ones(2),))
    with pytest.raises(PluginConflict, match=conflict):
        load(configured(strict_plugins=True))


def test_all_are_loaded_in_isolation_for_a_report(installed: Path) -> None:
    install(installed, "sick-pack", {"__init__": "import no_such_module_at_all\n"}, "sick_pack:table")
    install(installed, "well-pack", {"__init__": TABLE}, "well_pack:table")
    told = {each.found.name: outcome for each, outcome in load_all(configured(disable=["well-pack"]))}
    assert isinstance(told["sick-pack"], PluginLoadError) and told["well-pack"] is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("table = 3\n", "neither a SymbolicTable nor an object with hooks"),
        ("class Pack:\n    symbolics = ['relu']\ntable = Pack()\n", "`symbolics` contain 'relu', which is no SymbolicTable"),
        (
            "import onnxexp\nclass Pack:\n    @onnxexp.hookimpl\n    def pre_pass(self, optoins): ...\ntable = Pack()\n",
            r"'odd-pack' \(odd-pack 1.0\).*pre_pass.*optoins",
        ),
        (
            "import onnxexp\nclass Pack:\n    @onnxexp.hookimpl\n    def pre_passes(self, options): ...\ntable = Pack()\n",
            r"there is no hook 'pre_passes' \(did you mean 'pre_pass'\?\) \(.*odd_pack.__init__.py:3\)",
        ),
        (
            "import pluggy\nclass Pack:\n    @pluggy.HookimplMarker('onnxexp')(wrapper=True)\n"
            "    def pre_pass(self): yield\ntable = Pack()\n",
            "the hook pre_pass .* is a wrapper",
        ),
        (
            "import onnxexp\nclass Pack:\n    @onnxexp.hookimpl(namespaces=['aten'])\n"
            "    def pre_pass(self): ...\ntable = Pack()\n",
            r"the hook pre_pass \(.*odd_pack.__init__.py:3\) has namespaces; to fix this, leave them out",
        ),
        (
            "import onnxexp\nclass Pack:\n    @onnxexp.hookimpl(namespaces='aten')\n"
            "    def lower_node(self): ...\ntable = Pack()\n",
            "namespaces is 'aten'; to fix this, give a list of names",
        ),
        ("", "odd_pack:table.* does not load: AttributeError"),
    ],
)
def test_malformed_plugins(installed: Path, source: str, message: str) -> None:
    sys.modules.pop("odd_pack", None)
    install(installed, "odd-pack", {"__init__": source}, "odd_pack:table")
    with pytest.raises(PluginLoadError, match=message):
        loaded("odd-pack")


def test_an_object_of_a_call_is_checked_too() -> None:
    with pytest.raises(
        PluginLoadError, match="the plugin 'inline object': <object .*> is neither a SymbolicTable nor an object with hooks"
    ):
        onnxexp.export(torch.relu, (torch.ones(2),), plugins=[object()])


def test_the_plugins_that_took_part_are_in_the_model(installed: Path) -> None:
    source = TABLE.replace("'mine'", "'aten'").replace("'relu'", "'special_i0'").replace("Relu", "Abs")
    install(installed, "stamp-pack", {"__init__": source}, "stamp_pack:table")
    mine = SymbolicTable("aten", override=True)
    mine.direct({"relu": "Relu"})
    program = onnxexp.export(lambda x: torch.special.i0(x).relu(), (torch.ones(2),), plugins=[mine, "stamp-pack"])
    assert program.model.metadata_props["onnxexp.plugins"] == "inline aten; stamp-pack 1.0"
    assert [plugin.name for plugin in program.plugins] == ["inline aten", "stamp-pack"]
    idle = onnxexp.export(torch.nn.ReLU(), (torch.ones(2),), plugins=[mine, "stamp-pack"])
    assert idle.model.metadata_props["onnxexp.plugins"] == "inline aten"


def test_an_object_takes_the_place_of_an_installed_plugin_of_its_class(installed: Path) -> None:
    source = (
        "import onnxexp\nclass Pack:\n    def __init__(self, label): self.label = label\n"
        "    @onnxexp.hookimpl\n    def pre_pass(self, options): ...\nplugin = Pack('installed')\n"
    )
    install(installed, "setting-pack", {"__init__": source}, "setting_pack:plugin")
    (own,) = loaded("setting-pack")
    for given in (own.object, type(own.object)("given")):
        (plugin,) = loaded(given, "setting-pack")
        assert plugin.object is given and plugin.user


def test_what_is_registered_with_an_installed_plugin_takes_part(installed: Path) -> None:
    install(installed, "grown-pack", {"__init__": TABLE}, "grown_pack:table")
    config = configured(plugins=["grown-pack"])
    assert not load(config).dispatcher.candidates("mine::tanh", 20)
    table: SymbolicTable = sys.modules["grown_pack"].table
    table.direct({"tanh": "Tanh"})
    assert [each.symbolic.direct for each in load(config).dispatcher.candidates("mine::tanh", 20)] == ["Tanh"]
    table.direct({"tanh": "Sin"}, since=15)
    assert [each.symbolic.direct for each in load(config).dispatcher.candidates("mine::tanh", 20)] == ["Sin", "Tanh"]


def test_an_export_knows_only_the_plugins_that_took_part_in_it(installed: Path) -> None:
    install(installed, "taking-pack", {"__init__": TABLE}, "taking_pack:table")
    first, second = (load(configured(plugins=["taking-pack"])) for _ in range(2))
    first.used.add("taking-pack")
    assert [plugin.name for plugin in first.used_plugins()] == ["taking-pack"] and not second.used_plugins()
    assert not load(configured(plugins=["taking-pack"])).used_plugins()


def test_hooks_are_read_again_where_a_plugin_has_got_other_functions(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import onnxexp\n@onnxexp.hookimpl\ndef pre_pass(options): ...\n"
    install(installed, "reloaded-pack", {"__init__": source}, "reloaded_pack")
    (before,) = load(configured(plugins=["reloaded-pack"])).implementations("pre_pass")
    monkeypatch.setattr(sys.modules["reloaded_pack"], "pre_pass", onnxexp.hookimpl(lambda: None))
    (after,) = load(configured(plugins=["reloaded-pack"])).implementations("pre_pass")
    assert (before.parameters, after.parameters) == (("options",), ())
    monkeypatch.setattr(sys.modules["reloaded_pack"], "post_pass", onnxexp.hookimpl(lambda: None), raising=False)
    assert loaded("reloaded-pack")[0].hooks == ("pre_pass", "post_pass")


def test_another_object_of_the_same_class_is_noticed(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import onnxexp\nclass Pack:\n    @onnxexp.hookimpl\n    def pre_pass(self, options): ...\nplugin = Pack()\n"
    install(installed, "swapped-pack", {"__init__": source}, "swapped_pack:plugin")
    (before,) = load(configured(plugins=["swapped-pack"])).implementations("pre_pass")
    other = sys.modules["swapped_pack"].Pack()
    monkeypatch.setattr(sys.modules["swapped_pack"], "plugin", other)
    (after,) = load(configured(plugins=["swapped-pack"])).implementations("pre_pass")
    assert before.plugin.object is not other and after.plugin.object is other
    assert after.function.__self__ is other  # type: ignore[attr-defined]


def test_an_object_of_a_call_is_not_kept() -> None:
    class Pack:
        @onnxexp.hookimpl
        def pre_pass(self, options: Any) -> None: ...

    pack = Pack()
    alive = weakref.ref(pack)
    assert [plugin.object for plugin in loaded(pack)] == [pack]
    del pack
    gc.collect()
    assert alive() is None
