"""Published files: the metadata of each wheel, and the contents of each sdist."""

from __future__ import annotations

import ast
import email
import re
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from onnxexp._version import __version__
from tests.packaging.environments import OURS, PROJECTS, ROOT, Wheelhouse, name_of, project

BROUGHT_BY = {"sympy": "torch", "ml_dtypes": "onnx_ir", "google": "onnx"}
"""Packages that come with a requirement."""
AT_START = {"torch_onnx": {"onnxexp-torch-onnx.pth", "onnxexp_torch_onnx_start.py"}}
"""Files beside the package, which Python reads at its start."""
each_project = pytest.mark.parametrize("source", PROJECTS, ids=name_of)


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(path))


def requirements(texts: list[str]) -> Counter[str]:
    return Counter(str(Requirement(text)) for text in texts)


def expected_requirements(source: Path) -> Counter[str]:
    """Read the requirements of pyproject.toml, the extras' with their marker."""
    table = project(source)["project"]
    extras = table.get("optional-dependencies", {}).items()
    return requirements(table["dependencies"]) + requirements(
        [f"{text} {'and' if ';' in text else ';'} extra == '{extra}'" for extra, texts in extras for text in texts]
    )


def example_files() -> set[str]:
    """List the files of the example pack, without what tools leave there."""
    example = PROJECTS[-1]
    kept = {path.relative_to(example) for path in example.rglob("*") if path.is_file()}
    tools = ("__pycache__", "build", "dist", ".pytest_cache", ".ruff_cache", ".mypy_cache")
    return {path.as_posix() for path in kept if not any(part in tools or part.endswith(".egg-info") for part in path.parts)}


@each_project
def test_the_metadata_of_a_wheel(source: Path, house: Wheelhouse) -> None:
    table = project(source)["project"]
    wheel = house.one(source, ".whl")
    fields = metadata(wheel)
    assert fields["Name"] == table["name"]
    assert fields["Version"] == (table.get("version") or __version__)
    assert fields["Requires-Python"] == ">=3.10" and fields["License-Expression"] == "MIT" and fields["License-File"] == "LICENSE"
    assert requirements(fields.get_all("Requires-Dist", [])) == expected_requirements(source)
    assert set(fields.get_all("Provides-Extra", [])) == set(table.get("optional-dependencies", {}))
    assert fields["Description-Content-Type"] == "text/markdown"
    pages = [source / "README.md", source / "CHANGELOG.md"] if source in OURS else [source / "README.md"]
    texts = [page.read_text("utf-8").strip() for page in pages]
    assert re.split(r"\n+(?=# Changelog\n)", fields.get_payload(decode=True).decode().strip()) == texts  # type: ignore[union-attr]
    assert wheel.name.endswith("-py3-none-any.whl")


@each_project
def test_what_a_wheel_holds(source: Path, house: Wheelhouse) -> None:
    with zipfile.ZipFile(house.one(source, ".whl")) as archive:
        names = archive.namelist()
        entry_points = [archive.read(name).decode() for name in names if name.endswith("/entry_points.txt")]
    beside = {name for name in names if "/" not in name}
    assert beside == AT_START.get(source.name, set())
    packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name and name not in beside}
    assert len(packages) == 1, "a wheel brings one package, and no tests or examples beside it"
    (package,) = packages
    assert f"{package}/py.typed" in names and any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    base = source / "core" if source == ROOT else source
    modules = {path.relative_to(base).as_posix() for path in (base / package).rglob("*.py") if path.is_relative_to(base)}
    shipped = {name for name in names if name.endswith(".py") and "/templates/" not in name and name not in beside}
    assert shipped == {name for name in modules if "/templates/" not in name}, "every module is in the wheel, and nothing else"
    if source == ROOT:
        templates = {name.partition("/templates/")[2] for name in names if "/templates/" in name}
        assert templates == example_files(), "`onnxexp new-plugin` writes them"
    plugin = any(f"[onnxexp.{group}]" in "".join(entry_points) for group in ("plugins", "commands"))
    assert plugin == (source != ROOT), "the core is no plugin; the others are"


@each_project
def test_a_distribution_requires_what_it_imports(source: Path) -> None:
    """Only imports at the top of a module count; those in functions may be optional."""
    folder = source / "core" if source == ROOT else source
    (package,) = {path.parent.name for path in folder.glob("*/py.typed")}
    files = [file for file in folder.joinpath(package).rglob("*.py") if "templates" not in file.parts]
    imported = {name for file in files for name in imports_at_the_top(file)} - {package, *sys.stdlib_module_names}
    requirements = list(map(Requirement, project(source)["project"]["dependencies"]))
    required = {each.name.replace("-", "_") for each in requirements}
    required |= {"onnxruntime" for each in requirements if "runtime" in each.extras}
    needed = {BROUGHT_BY.get(name, name.replace("onnxexp_", "onnxexp_plugin_", 1)) for name in imported}
    assert needed - required == set()


def imports_at_the_top(file: Path) -> Iterator[str]:
    """Yield the packages that a module imports whenever it is imported."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]


def test_the_core_brings_the_command(house: Wheelhouse) -> None:
    with zipfile.ZipFile(house.one(ROOT, ".whl")) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        assert archive.read(path).decode().split() == ["[console_scripts]", "onnxexp", "=", "onnxexp._cli:main"]


@each_project
def test_what_an_sdist_holds(source: Path, house: Wheelhouse) -> None:
    with tarfile.open(house.one(source, ".tar.gz")) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO"} <= set(names)
    assert any(name.endswith("/py.typed") for name in names)
    unwanted = ("__pycache__", ".venv", ".git/", "bench-results", ".mypy_cache", ".onnx", "node_modules")
    assert not [name for name in names if any(part in name for part in unwanted)]
