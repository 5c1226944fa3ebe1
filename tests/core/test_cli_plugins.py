"""`onnxexp plugins`, `plugins why`, `ops` and `config`, before and after loading."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from onnxexp._cli import plugins_command
from onnxexp._cli.text_or_json import Output
from onnxexp._plugins.discovery import PluginStatus
from onnxexp._plugins.installed_plugin import InstalledPlugin
from onnxexp._request import untrusted_files
from tests.core.commanding import install, run, separately

Capsys = pytest.CaptureFixture[str]

GELU = """
    import onnxexp
    table = onnxexp.SymbolicTable("aten")

    @table("gelu", since=20)
    def gelu(op, self, approximate):
        return op.Gelu(self, approximate=approximate)

    @table("erf", until=12)
    def erf(op, self):
        return op.Erf(self)
"""
OTHER = """
    import onnxexp
    from onnxexp import hookimpl
    table = onnxexp.SymbolicTable("aten", override=True)
    table.direct({"gelu": "Gelu", "cosh": "Cosh"})

    class Pack:
        symbolics = table

        @hookimpl
        def lower_node(self, op, node):
            return None

    pack = Pack()
"""


@pytest.fixture
def packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide four packs, one of them broken, with the installed plugins off."""
    folder = tmp_path / "packs"
    unique = f"{abs(hash(tmp_path))}"
    install(folder, "gelu", f"gelu_{unique}:table", source=GELU, version="1.2")
    install(folder, "other", f"other_{unique}:pack", source=OTHER, distribution="Other.Pack")
    install(folder, "broken", f"broken_{unique}:table", source="import no_such_package_anywhere\n")
    install(folder, "spare", f"spare_{unique}:table", source="raise AssertionError('it is off')\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("ONNXEXP_PLUGINS", "gelu,other,broken")
    return folder


def by_name(listed: list[dict[str, object]]) -> dict[object, dict[str, object]]:
    return {each["name"]: each for each in listed}


def test_the_list(packs: Path, capsys: Capsys) -> None:
    ran = run(capsys, "plugins")
    assert ran.status == 0
    line = next(line for line in ran.out.splitlines() if line.startswith("gelu "))
    assert "gelu-pack" in line and "1.2" in line and " on " in line
    listed = by_name(run(capsys, "plugins", "--json").document)
    assert {"gelu", "other", "broken", "spare"} <= set(listed)
    assert listed["other"]["distribution"] == "Other.Pack" and listed["broken"]["state"] == "on"
    assert listed["spare"]["state"] == "off" and "ONNXEXP_PLUGINS" in str(listed["spare"]["reason"])
    assert str(listed["gelu"]["entry_point"]).endswith(":table") and listed["gelu"]["location"] == str(packs)


def test_options_and_doubled_names(packs: Path, capsys: Capsys) -> None:
    listed = by_name(run(capsys, "plugins", "--json", "--without", "gelu", "--plugins", "gelu,spare").document)
    assert listed["gelu"]["state"] == "off" and listed["spare"]["state"] == "on" and listed["broken"]["state"] == "off"
    install(packs, "gelu", "elsewhere:table", distribution="impostor")
    ran = run(capsys, "plugins", "--json")
    assert ran.status == 1
    doubled = [each for each in ran.document if each["name"] == "gelu"]
    assert [each["state"] for each in doubled] == ["refused", "refused"] and "impostor 1.0" in doubled[0]["reason"]
    assert run(capsys, "plugins", "--plugins", "glue").status == 2


def test_what_loading_shows(packs: Path, capsys: Capsys) -> None:
    ran = run(capsys, "plugins", "--load", "--json")
    listed = by_name(ran.document)
    assert ran.status == 1
    assert listed["gelu"] | {"state": "loaded", "operators": 2, "override": False, "hooks": []} == listed["gelu"]
    assert listed["other"] | {"state": "loaded", "operators": 2, "override": True, "hooks": ["lower_node"]} == listed["other"]
    assert listed["broken"]["state"] == "broken" and "no_such_package_anywhere" in str(listed["broken"]["reason"])
    assert listed["spare"]["state"] == "off"
    text = run(capsys, "plugins", "--load").out
    assert "lower_node" in text and "broken" in text and "no_such_package_anywhere" in text
    assert run(capsys, "plugins", "--load", "--without", "broken").status == 0


def test_nothing_is_imported(packs: Path, tmp_path: Path) -> None:
    code = """
        loaded = [name for name in sys.modules if name.split(".")[0] in ("torch", "onnx", "onnx_ir", "pluggy", "rich", "numpy")]
        loaded += [name for name in sys.modules if name.split("_")[0] in ("gelu", "other", "broken", "spare")]
        assert not loaded, loaded
    """
    for command, shown in (("plugins", "gelu-pack"), ("config", "opset")):
        for arguments in ([command], [command, "--json"]):
            ran = separately(*arguments, cwd=tmp_path, path=[packs], code=code)
            assert ran.status == 0, ran.err
            assert shown in ran.out


def test_fifty_packs_are_listed(tmp_path: Path) -> None:
    """The benchmark measures the time of this list."""
    for number in range(50):
        install(tmp_path / "packs", f"pack{number}", f"pack_{number}:table", source="raise AssertionError('imported')\n")
    ran = separately("plugins", cwd=tmp_path, path=[tmp_path / "packs"])
    assert ran.status == 0 and ran.out.count("pack_") == 50, ran.err


def test_no_plugin_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    ran = run(capsys, "plugins")
    assert ran.status == 0 and "pip install onnxexp-plugin-aten" in ran.out
    assert run(capsys, "plugins", "--json").document == []


# Who lowers an operator


def why(capsys: Capsys, *arguments: str) -> dict[str, object]:
    document = run(capsys, "plugins", "why", *arguments, "--without", "broken", "--json").document
    assert isinstance(document, dict)
    return document


def test_why(packs: Path, capsys: Capsys) -> None:
    document = why(capsys, "aten::gelu", "--opset", "20")
    assert document["opset"] == 20 and document["hooks"] == ["other"]
    claims = document["claims"]
    assert isinstance(claims, list)
    assert [(claim["plugin"], claim["chosen"]) for claim in claims] == [("other", True), ("gelu", False)]
    assert "overrides" in claims[0]["reason"] and claims[0]["direct"] == "Gelu"
    assert claims[1]["serves"] == "opset 20 on" and ".py:" in claims[1]["location"]
    preferred = why(capsys, "aten::gelu", "--opset", "20", "--prefer", "aten::gelu=gelu")["claims"]
    assert isinstance(preferred, list) and preferred[0]["plugin"] == "gelu" and "preferred" in preferred[0]["reason"]
    text = run(capsys, "plugins", "why", "aten::gelu", "--without", "broken").out
    assert "first choice" in text and "lower_node" in text


def test_why_not(packs: Path, capsys: Capsys) -> None:
    ran = run(capsys, "plugins", "why", "aten::erf", "--opset", "13", "--without", "broken")
    assert ran.status == 1 and "no plugin lowers aten::erf at opset 13" in ran.out and "up to opset 12" in ran.out
    assert run(capsys, "plugins", "why", "aten::erf", "--opset", "12", "--without", "broken").status == 0
    ran = run(capsys, "plugins", "why", "aten::geluu", "--without", "broken")
    assert ran.status == 1 and "no plugin has a symbolic for aten::geluu (did you mean 'aten::gelu'?)" in ran.out
    ran = run(capsys, "plugins", "why", "gelu", "--without", "broken")
    assert ran.status == 2 and "write it as aten::gelu" in ran.err
    ran = run(capsys, "plugins", "why", "aten::gelu")
    assert ran.status == 2 and "the plugin 'broken' (broken-pack 1.0" in ran.err


def test_options_before_why_hold(packs: Path, capsys: Capsys) -> None:
    ran = run(capsys, "plugins", "--opset", "12", "--without", "broken", "--json", "why", "aten::erf")
    assert ran.status == 0 and ran.document["opset"] == 12


# Operators


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["aten::cosh", "aten::gelu"]),
        (["--opset", "12"], ["aten::cosh", "aten::erf", "aten::gelu"]),
        (["gel"], ["aten::gelu"]),
        (["c*"], ["aten::cosh"]),
        (["aten::*h"], ["aten::cosh"]),
        (["--without", "other", "--opset", "19"], []),
        (["GELU"], []),
    ],
)
def test_operators(packs: Path, capsys: Capsys, arguments: list[str], expected: list[str]) -> None:
    arguments = ["ops", *arguments, "--without", "broken"]
    ran = run(capsys, *arguments, "--json")
    assert [row["op"] for row in ran.document["operators"]] == expected
    assert ran.status == (0 if expected else 1)
    text = run(capsys, *arguments).out
    counted = "1 operator" if len(expected) == 1 else f"{len(expected)} operators"
    assert all(op in text for op in expected) and counted in text


# Configuration


def test_config_says_where_values_come_from(packs: Path, capsys: Capsys) -> None:
    Path("pyproject.toml").write_text('[tool.onnxexp]\nopset = 17\ndisable = ["spare"]\nprefer = {"aten::gelu" = "gelu"}\n')
    document = run(capsys, "config", "--json", "--without", "broken").document
    settings = {each["name"]: (each["value"], each["origin"]) for each in document}
    file = f"{Path.cwd() / 'pyproject.toml'} [tool.onnxexp]"
    assert settings["opset"] == (17, file)
    assert settings["plugins"] == (["gelu", "other", "broken"], "ONNXEXP_PLUGINS")
    assert settings["disable"] == (["spare", "broken"], f"{file}; command line")
    assert settings["prefer"] == ({"aten::gelu": "gelu"}, file)
    assert settings["debug"] == (False, "default")
    text = run(capsys, "config", "--opset", "12", "--plugins", "gelu,...").out
    assert "12" in text and "command line" in text and "gelu, ..." in text and "aten::gelu=gelu" in text


def test_bad_configuration(packs: Path, capsys: Capsys) -> None:
    Path("onnxexp.toml").write_text('opset = "new"\n')
    for command in (["config"], ["plugins"]):
        ran = run(capsys, *command)
        assert ran.status == 2 and "onnxexp.toml: opset is 'new'; expected a whole number" in ran.err


def test_a_lock_of_what_is_on(packs: Path, capsys: Capsys) -> None:
    pytest.importorskip("onnxexp_aten")
    ran = run(capsys, "plugins", "--lock", "--plugins", "aten", "--json")
    (entry,) = ran.document["allow"]
    assert ran.status == 0 and entry.startswith("onnxexp-plugin-aten@sha256:") and len(entry) == 90 + 1
    assert entry in run(capsys, "plugins", "--lock", "--plugins", "aten").out


def test_a_lock_is_toml_whatever_a_distribution_is_called(capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    found = InstalledPlugin(
        "odd", "odd:PLUGIN", 'a"]\nplugins = ["evil', "1.0", "/nowhere", EntryPoint("odd", "odd:PLUGIN", "onnxexp.plugins")
    )
    monkeypatch.setattr(plugins_command, "record_hash", lambda found: "sha256:0")
    plugins_command._lock([PluginStatus(found, "on")], Output(False))
    assert untrusted_files.tomllib.loads(capsys.readouterr().out) == {"allow": [f"{found.distribution}@sha256:0"]}
