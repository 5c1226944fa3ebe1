"""Packs that only lie in the working directory are no part of an export."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.conftest import Make
from tests.packaging.environments import Environment
from tests.packaging.packs import relu_pack

EXPORT = """
    import json, sys, torch, onnxexp

    try:
        reported = len(onnxexp.export(torch.nn.ReLU(), (torch.ones(2),)).model.graph)
    except onnxexp.PluginLoadError as error:
        reported = str(error)
    print(json.dumps([reported, "hostile_pack" in sys.modules]))
"""


@pytest.fixture(scope="module")
def environment(make: Make, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make("onnxexp", relu_pack("good-pack", 1).wheel(tmp_path_factory.mktemp("wheels")))


def test_a_pack_that_lies_there_is_not_listed(environment: Environment, tmp_path: Path) -> None:
    """Python itself would import such a pack: a script's folder is on its path."""
    relu_pack("hostile-pack", 5, override=True).unpack(tmp_path)
    found = environment.python("import importlib.metadata as m; print(m.version('hostile-pack'))", cwd=tmp_path)
    assert found.out.strip() == "1.0"
    assert environment.states(cwd=tmp_path) == {"good-pack": "on"}
    for path in (".", str(tmp_path)):
        assert environment.states(cwd=tmp_path, PYTHONPATH=path) == {"good-pack": "on"}


@pytest.mark.full
def test_a_pack_that_lies_there_does_not_load(environment: Environment, tmp_path: Path) -> None:
    relu_pack("hostile-pack", 5, override=True).unpack(tmp_path)
    assert environment.python("import hostile_pack", cwd=tmp_path).status == 0
    assert environment.python(EXPORT, cwd=tmp_path).reported == [1, False]


@pytest.mark.full
def test_a_module_that_lies_there_does_not_stand_in(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "good_pack.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "pyproject.toml").write_text("[tool.onnxexp]\nstrict_plugins = true\n")
    reported, _ = environment.python(EXPORT, cwd=tmp_path).reported
    assert "'good_pack' would be loaded from the working directory" in reported and "good-pack 1.0" in reported


def test_the_installed_one_is_found_from_its_own_folder(environment: Environment) -> None:
    """A folder of installed packages is trusted, even as the working directory."""
    assert environment.states(cwd=environment.site) == {"good-pack": "on"}
