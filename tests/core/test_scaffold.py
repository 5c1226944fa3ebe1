"""The example pack, and the packs that `create` makes of it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onnxexp
from onnxexp import OptionError
from onnxexp._cli import plugin_scaffold
from onnxexp._cli.plugin_scaffold import create

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugin"


def run(*command: str, cwd: Path, site: Path | None = None) -> str:
    """Run a command that must succeed, and return its output."""
    settings = {**os.environ, "PYTHONPATH": str(site or ""), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=settings,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def install(project: Path, site: Path) -> None:
    """Build the distribution and put it into a folder, with nothing else."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site))
    run("-m", "pip", "--disable-pip-version-check", "install", *options, str(project), cwd=site.parent)


CACHES = ("__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", "build", "dist")


def files(folder: Path) -> dict[str, Path]:
    """List a folder's files by relative path, without what tools leave behind."""
    found = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {
        path.as_posix(): full
        for path, full in found.items()
        if not any(part in CACHES or part.endswith(".egg-info") for part in path.parts)
    }


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a pack and install it into the folder `site` beside it."""
    folder = tmp_path_factory.mktemp("scaffold")
    create("Wave_Ops.2", folder / "pack")
    shutil.copytree(folder / "pack", folder / "sources")  # the build writes beside the sources
    install(folder / "sources", folder / "site")
    return folder / "pack"


def test_a_new_pack_passes_its_own_tests(pack: Path) -> None:
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=pack, site=pack.parent / "site")
    assert " passed" in out and "failed" not in out and "skipped" not in out


def test_a_new_pack_is_found_and_lowers_without_a_line_in_the_script(pack: Path) -> None:
    script = (
        "import onnxexp, torch, wave_ops_2\n"
        "program = onnxexp.export(lambda x: wave_ops_2.snake(x, 2.0), (torch.ones(3),))\n"
        "program.verify()\n"
        "print(program.model.metadata_props['onnxexp.plugins'])\n"
    )
    assert "wave-ops-2 0.1.0" in run("-c", script, cwd=pack.parent, site=pack.parent / "site")


@pytest.mark.parametrize("name", ["w", "zz-top", "a-rather-long-name-for-a-pack-of-operators"])
def test_a_new_pack_is_tidy(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    create(name, tmp_path)
    run("-m", "ruff", "check", "--no-cache", ".", cwd=tmp_path)
    run("-m", "ruff", "format", "--no-cache", "--check", ".", cwd=tmp_path)


def test_a_new_pack_keeps_nothing_of_the_examples_names(pack: Path) -> None:
    written = {path: file.read_text() for path, file in files(pack).items()}
    assert not [path for path, text in written.items() if "acme" in path + text]
    assert 'name = "wave-ops-2"' in written["pyproject.toml"] and 'wave-ops-2 = "wave_ops_2:plugin"' in written["pyproject.toml"]
    assert {"README.md", "LICENSE", ".gitignore", ".github/workflows/test.yml", "wave_ops_2/py.typed"} <= written.keys()


def test_the_templates_are_the_whole_example() -> None:
    """Nothing that is under version control in the example is left out of a new pack."""
    assert files(EXAMPLE).keys() == set(plugin_scaffold._FILES)


def test_the_example_is_small_and_uses_public_names_only() -> None:
    code = [node for path in (EXAMPLE / "acme_ops").glob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    lines = sum(bool(line.strip()) for path in (EXAMPLE / "acme_ops").glob("*.py") for line in path.read_text().splitlines())
    assert lines <= 45, lines
    taken = {alias.name for node in code if isinstance(node, ast.ImportFrom) and node.module == "onnxexp" for alias in node.names}
    assert taken and taken <= set(onnxexp.__all__)
    modules = {node.module or "" for node in code if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in code if isinstance(node, ast.Import) for alias in node.names}
    assert modules <= {"__future__", "onnxexp", "torch", "acme_ops.operators", "acme_ops.symbolics"}
    calls = [ast.unparse(node) for node in code if isinstance(node, ast.Call)]
    tables = [call for call in calls if call.startswith("SymbolicTable(")]
    assert tables == ["SymbolicTable('acme_ops')"], "installing an example must not change how torch's operators are lowered"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "no valid name for a distribution"),
        ("-pack", "no valid name for a distribution"),
        ("my pack", "no valid name for a distribution"),
        ("../pack", "no valid name for a distribution"),
        ("2fast", "cannot import a package called 2fast"),
        ("class", "cannot import a package called class"),
        ("Json", "json is a module of Python's standard library; choose another name, such as json-ops"),
        ("aten", "a namespace of torch's own operators"),
        ("tests", "the folder of the plugin's own tests"),
        ("onnx", "a module onnx is installed already"),
    ],
)
def test_names(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=reason):
        create(name, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


def test_a_plugins_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "other-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[onnxexp.plugins]\nwaves = other:plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OptionError, match="other 1.0 is installed and has a plugin waves"):
        create("waves", tmp_path / "pack")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "LICENSE").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="README.md, .*LICENSE; choose another folder"):
        create("waves", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LICENSE", "README.md", "tests"]
    assert (tmp_path / "README.md").read_text() == "mine"
    with pytest.raises(OptionError, match="is a file"):
        create("waves", tmp_path / "README.md" / "pack")


def test_other_files_may_be_there(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    written = create("waves", tmp_path)
    assert len(written) == len(plugin_scaffold._FILES) and all(path.is_file() for path in written)


def test_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").mkdir()
    texts = {tmp_path / "new" / "a": "a", tmp_path / "tests" / "b": "b", tmp_path / "c": "\ud800"}
    with pytest.raises(UnicodeEncodeError):
        plugin_scaffold._write(texts)
    assert [path.name for path in tmp_path.rglob("*")] == ["tests"]


def test_no_torch_is_imported(tmp_path: Path) -> None:
    script = f"import sys, json\nfrom onnxexp._cli.plugin_scaffold import create\ncreate('waves', {str(tmp_path / 'pack')!r})\n"
    loaded = json.loads(run("-c", script + "print(json.dumps(list(sys.modules)))", cwd=tmp_path))
    assert not {"torch", "onnx", "onnx_ir"} & set(loaded)


def test_the_example_says_what_it_does() -> None:
    """The README's table names every operator of the pack's table, all of its own."""
    text = (EXAMPLE / "README.md").read_text()
    symbolics = (EXAMPLE / "acme_ops" / "symbolics.py").read_text()
    names = {
        decorator.args[0].value
        for node in ast.parse(symbolics).body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and isinstance(decorator.args[0], ast.Constant)
    }
    assert names == {"snake", "gated"} and "override" not in symbolics
    for name in names:
        assert f"| `acme_ops::{name}` |" in text
