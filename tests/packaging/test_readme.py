"""READMEs and tutorial: commands, code and settings, in the README's environment."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks
from tests.packaging.environments import ROOT, Environment, Wheelhouse, copy_sources, execute

README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorial" / "first-export.md"
OTHER_READMES = [*sorted(ROOT.glob("plugins/*/README.md")), ROOT / "examples" / "plugin" / "README.md"]


def of(page: Path, *languages: str) -> list[Block]:
    found = [block for block in blocks(page.read_text("utf-8")) if block.language in languages]
    assert found, (page, languages)
    return found


def lines(page: Path, beginning: str) -> list[str]:
    """List the commands of a page's shell blocks that begin with a word."""
    commands = [line for block in of(page, "sh", "console") for line in block.text.splitlines()]
    return [line for line in commands if line.startswith(beginning)]


def settings() -> str:
    (text,) = (block.text for block in of(README, "toml") if "[tool.onnxexp]" in block.text)
    return text


@pytest.fixture(scope="module")
def readme(house: Wheelhouse, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Provide an environment with the README's `pip install` run in a clone."""
    clone = copy_sources(ROOT, tmp_path_factory.mktemp("clone"))
    environment = Environment(tmp_path_factory.mktemp("fresh"), house)
    (command,) = lines(README, "pip install")
    words = [
        word for part in shlex.split(command)[2:] for word in (map(str, sorted(clone.glob(part))) if "*" in part else [part])
    ]
    options = ("--disable-pip-version-check", "--no-input", "--python", environment.folder)
    offline = ("--no-index", "--no-build-isolation")  # without a wheelhouse, so that pip finds the projects of the command only
    execute(sys.executable, "-m", "pip", *options, "install", *offline, *words, cwd=clone)
    return environment


def test_the_tutorial_installs_as_the_readme_does() -> None:
    assert lines(TUTORIAL, "pip install") == lines(README, "pip install")


def test_the_makefile_has_the_commands() -> None:
    for line in lines(README, "make"):
        execute("make", "--dry-run", *shlex.split(line, comments=True)[1:], cwd=ROOT)


def test_it_installs_every_plugin(readme: Environment) -> None:
    extras = {"aten", "autograd", "custom-cpp", "quantized", "report", "torchscript", "torchvision", "torch-onnx", "transformers"}
    assert readme.states() == {**dict.fromkeys(extras, "on"), "onnxruntime-contrib": "off"}


def test_the_code_and_the_settings(readme: Environment) -> None:
    """The README's Python blocks run as one script, without and with its settings."""
    script = "\n".join(block.text for block in of(README, "python") if not block.title)
    for folder, written in ((readme.work / "plain", ""), (readme.work / "settings", settings())):
        folder.mkdir()
        (folder / "pyproject.toml").write_text(written, "utf-8")
        assert "torch.Size([7, 4])" in readme.python(script, cwd=folder).out
    assert readme.states(cwd=folder) == {
        "aten": "on",
        "autograd": "on",
        "custom-cpp": "off",
        "onnxruntime-contrib": "off",
        "quantized": "off",
        "report": "off",
        "torch-onnx": "on",
        "torchscript": "off",
        "torchvision": "off",
        "transformers": "off",
    }


def test_the_commands(readme: Environment) -> None:
    for block in of(README, "python"):
        if block.title:
            (readme.work / block.title).write_text(block.text, "utf-8")
    commands = [shlex.split(line, comments=True)[1:] for line in lines(README, "onnxexp")]
    script = f"""
        import json
        from onnxexp import _cli as cli
        print(json.dumps([cli.main(command) for command in json.loads({json.dumps(commands)!r})]))
    """
    assert readme.python(script).reported == [0] * len(commands)
    assert (readme.work / "mlp.onnx").exists()


def test_no_block_is_left_out() -> None:
    """Each block of the README is of a kind that a test here runs."""
    for block in of(README, *(block.language for block in blocks(README.read_text("utf-8")))):
        if block.language == "sh":
            assert all(line.partition(" ")[0] in ("make", "pip", "onnxexp") for line in block.text.splitlines()), block
        elif block.language == "toml":
            assert "[tool.onnxexp]" in block.text or "entry-points" in block.text, block
        else:
            assert block.language in ("python", ""), block  # "": the diagram, and what the code before it prints


@pytest.mark.full
@pytest.mark.parametrize("page", OTHER_READMES, ids=lambda page: page.parent.name)
def test_the_code_of_the_other_readmes(readme: Environment, page: Path) -> None:
    folder = readme.work / f"readme-{page.parent.name}"
    folder.mkdir()
    own = page.parent.parent.name == "examples"
    if own:
        copied = copy_sources(page.parent, folder)
        readme.pip("install", "--no-index", "--no-build-isolation", "--no-deps", copied)
    try:
        readme.python("\n".join(block.text for block in of(page, "python")), cwd=folder)
    finally:
        if own:
            readme.uninstall("acme-ops")


def test_the_entry_point(readme: Environment) -> None:
    """The README's metadata makes the README's table a plugin."""
    (points,) = (block.text for block in of(README, "toml") if "entry-points" in block.text)
    (code,) = (block.text for block in of(README, "python") if "SymbolicTable(" in block.text)
    pack = readme.work / "pack"
    pack.mkdir()
    project = '[project]\nname = "my-pack"\nversion = "1.0"\n[tool.setuptools]\npy-modules = ["my_package"]\n'
    (pack / "pyproject.toml").write_text(project + points, "utf-8")
    (pack / "my_package.py").write_text(code.partition("onnxexp.export(")[0], "utf-8")
    readme.pip("install", "--no-index", "--no-build-isolation", "--no-deps", pack)
    try:
        listed = readme.plugins("--load")["mine"]
        assert (listed["state"], listed["operators"]) == ("loaded", 1)
    finally:
        readme.uninstall("my-pack")
        shutil.rmtree(pack)
