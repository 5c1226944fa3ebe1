"""A release: one version, one content per commit, and wheels that need no index."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from onnxexp._version import __version__
from tests.packaging.environments import OURS, ROOT, Environment, Wheelhouse, execute, name_of, project
from tests.packaging.release import arguments, build, install_bare, pythons, set_version, try_out
from tests.packaging.test_readme import lines

QUANTIZED = ROOT / "plugins" / "quantized"
each_of_ours = pytest.mark.parametrize(
    "source",
    [pytest.param(each, marks=() if each in (ROOT, QUANTIZED) else pytest.mark.full) for each in OURS],
    ids=name_of,
)
EXPORTS = """
    import onnxexp, torch
    from torch.ao import quantization

    model = torch.nn.Sequential(quantization.QuantStub(), torch.nn.Linear(16, 4), quantization.DeQuantStub()).eval()
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    model = quantization.prepare(model)
    x = torch.randn(8, 16)
    model(x)
    quantization.convert(model, inplace=True)
    program = onnxexp.export(model, (x,), dynamic_shapes=({0: "batch"},))
    program.verify(x[:3])
    print(len(program.model.graph))
"""


def wrong_versions(root: Path, version: str) -> list[str]:
    """List distributions of another version, and requirements of another release."""
    wrong, parsed = [], Version(version)
    required = SpecifierSet(f">={version},<{parsed.major}.{parsed.minor + 1}")
    for folder in (root / each.relative_to(ROOT) for each in OURS):
        table = project(folder)["project"]
        if folder != root and table["version"] != version:
            wrong.append(f"{table['name']} {table['version']}")
        extras = table.get("optional-dependencies", {}).values()
        for each in map(Requirement, (text for texts in (table["dependencies"], *extras) for text in texts)):
            if each.name.startswith("onnxexp") and not (each.name == table["name"] and not each.specifier):
                wrong += [f"{table['name']} needs {each}"] if each.specifier != required else []
    return wrong


def test_every_distribution_has_the_version_of_the_core() -> None:
    assert not wrong_versions(ROOT, __version__)


def test_one_command_sets_the_version(tmp_path: Path) -> None:
    for file in ("core/onnxexp/_version.py", *(each.relative_to(ROOT) / "pyproject.toml" for each in OURS)):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    assert wrong_versions(tmp_path, "9.8.7rc1")
    set_version(tmp_path, "9.8.7rc1")
    assert not wrong_versions(tmp_path, "9.8.7rc1")
    assert '__version__ = "9.8.7rc1"' in (tmp_path / "core/onnxexp/_version.py").read_text("utf-8")


def test_the_page_has_the_commands() -> None:
    page = ROOT / "docs" / "how-to" / "release.md"
    assert lines(page, "make") and lines(page, "python -m tests.packaging.release")
    for line in lines(page, "make"):
        execute("make", "--dry-run", *shlex.split(line)[1:], cwd=ROOT)
    for line in lines(page, "python -m tests.packaging.release"):
        assert arguments(shlex.split(line)[3:]).set is not None


@each_of_ours
def test_two_builds_give_the_same_bytes(source: Path, house: Wheelhouse, tmp_path: Path) -> None:
    """The second build is elsewhere, of newer files that only their owner may read."""
    before = os.umask(0o077)
    try:
        build(source, tmp_path, tmp_path / "again")
    finally:
        os.umask(before)
    again = sorted((tmp_path / "again").iterdir())
    assert len(again) == 2
    for file in again:
        assert file.read_bytes() == (house.folder / file.name).read_bytes(), file.name


@each_of_ours
def test_the_folder_of_wheels_is_all_that_pip_needs(source: Path, house: Wheelhouse, tmp_path: Path) -> None:
    environment = try_out(name_of(source), house, tmp_path)
    if source == QUANTIZED:
        _check_export(environment)


def _check_export(environment: Environment) -> None:
    assert int(environment.python(EXPORTS).out.splitlines()[-1]) > 3


def test_every_python_installs_and_compiles_the_wheels(house: Wheelhouse, tmp_path: Path) -> None:
    for version, python in pythons().items():
        assert execute(python, "--version", cwd=tmp_path).out.startswith(f"Python {version}."), python
    install_bare(sys.executable, house.folder, tmp_path / "right")
    assert list(tmp_path.glob("right/lib/*/site-packages/onnxexp_quantized/__pycache__/*.pyc"))
    (wheel,) = house.folder.glob("onnxexp_plugin_quantized-*.whl")
    wrong = tmp_path / "wheels" / wheel.name
    wrong.parent.mkdir()
    shutil.copyfile(wheel, wrong)
    with zipfile.ZipFile(wrong, "a") as archive:
        archive.writestr("onnxexp_quantized/newer.py", "type that no Python has = 1")
    with pytest.raises(AssertionError, match="newer.py"):
        install_bare(sys.executable, wrong.parent, tmp_path / "wrong")
