"""Run the code blocks of a Markdown page as its reader would.

The rules that a page keeps:

* The Python blocks of a page are one script, in one folder of its own. What a block prints is compared with the block of
  language ``text`` (or of none) that comes next, where no other block stands between; ``...`` there stands for anything.
* A ``text`` block that begins with an exception (``OptionError: ...``) is what the block raises.
* A block with a title is a file of that name in the folder (a ``text`` block is only shown). A ``pyproject.toml`` with entry
  points "installs" its project; a ``test_*.py`` is run with pytest when all files are there.
* TOML is parsed; as ``onnxexp.toml`` or with ``[tool.onnxexp]`` it is read as configuration.
* ``$ onnxexp ...`` in a console block is parsed; where its output is shown, it is run, and the output compared.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import doctest
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from onnxexp import _cli as cli
from onnxexp._cli.common_arguments import UsageError
from onnxexp._request import config

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}) *(?P<language>[\w-]*)(?P<rest>[^`]*)$")
_TITLE = re.compile(r'\btitle="([^"]+)"')
_OUTPUT = ("", "text")
_CONSOLE = ("console", "sh", "bash")
_RAISED = re.compile(r"(?:[A-Z]\w*Error|PluginConflict|UnsupportedOperators): ")
_TORCH_LINE = re.compile(r"(# (?:linear|activation)\.py):\d+")
"""Lines of torch.nn, which move from version to version."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: language, title, text, and the page's line where it begins."""

    language: str
    title: str
    text: str
    line: int


def blocks(markdown: str) -> list[Block]:
    """Read every fenced block of a page; raise ValueError for one that does not end."""
    found, lines = [], enumerate(markdown.splitlines(), 1)
    for number, line in lines:
        fence = _FENCE.match(line)
        if fence is None:
            continue
        body = []
        for _, inner in lines:
            if inner.strip() == fence["ticks"]:
                break
            body.append(inner.removeprefix(fence["indent"]))
        else:
            raise ValueError(f"the block that begins at line {number} does not end")
        title = _TITLE.search(fence["rest"])
        found.append(Block(fence["language"], title[1] if title else "", "\n".join(body) + "\n", number + 1))
    return found


def run(page: Path, folder: Path) -> None:
    """Run a page's blocks in a folder; raise AssertionError with page and line."""
    with pytest.MonkeyPatch.context() as patch, _modules_forgotten(folder):
        Page(page, folder, patch).run()


class Page:
    """The run of one page."""

    def __init__(self, page: Path, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.page, self.folder, self.patch = page, folder / "work", patch
        self.site = folder / "site"
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.blocks = blocks(page.read_text("utf-8"))

    def run(self) -> None:
        for place in (self.folder, self.site):
            place.mkdir()
            self.patch.syspath_prepend(place)
        self.patch.chdir(self.folder)
        for variable in [name for name in os.environ if name.startswith("ONNXEXP_")]:
            self.patch.delenv(variable)
        # the commands of an activated environment, with the page's own plugins
        self.patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        self.patch.setenv("PYTHONPATH", str(self.site))
        self._write_script()
        torch.manual_seed(0)
        for number, block in enumerate(self.blocks, 1):
            following = self.blocks[number : number + 1]
            shown = next((next_.text for next_ in following if next_.language in _OUTPUT and not next_.title), None)
            self._block(block, shown)
        for block in self.blocks:
            if Path(block.title).name.startswith("test_"):
                self._test(block)

    def _write_script(self) -> None:
        """Write the script with blocks at their lines of the page, as messages show them."""
        lines: list[str] = []
        for block in self.blocks:
            if block.language == "python" and not block.title:
                lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
        self.script = self.folder / f"{self.page.stem.replace('-', '_')}.py"
        self.script.write_text("\n".join(lines) + "\n", "utf-8")

    def _block(self, block: Block, shown: str | None) -> None:
        if block.language == "toml":
            self._toml(block)
        if block.title and block.language not in _OUTPUT:
            self._file(block)
        elif block.language == "python":
            self._python(block, shown)
        elif block.language in _CONSOLE:
            self._console(block)

    def _python(self, block: Block, shown: str | None) -> None:
        tree = ast.increment_lineno(ast.parse(block.text, str(self.script)), block.line - 1)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                exec(compile(tree, str(self.script), "exec"), self.names)
            except Exception as error:  # the page's code may raise any exception; the failure names its line
                if shown is not None and _RAISED.match(shown):
                    return self._compare(block, shown, f"{type(error).__name__}: {error}")
                raise AssertionError(f"{self._at(block)}: the block raises {type(error).__name__}: {error}") from error
        if shown is not None:
            self._compare(block, shown, out.getvalue())
        return None

    def _compare(self, block: Block, shown: str, printed: str) -> None:
        want, got = (_TORCH_LINE.sub(r"\1", _trimmed(text)) for text in (shown, printed))
        if want == "...\n" or not doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS):
            raise AssertionError(f"{self._at(block)}: the page shows\n{want}\nthe block prints\n{got}")

    def _test(self, block: Block) -> None:
        """Run a page's own tests as its reader would."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", block.title]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, f"{self._at(block)}: {done.stdout}{done.stderr}"

    def _file(self, block: Block) -> None:
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, "utf-8")
        if block.language == "python":
            compile(block.text, self._at(block), "exec")
        importlib.invalidate_caches()
        if path.name == "pyproject.toml":
            self._install(path.parent, tomllib.loads(block.text))

    def _install(self, project: Path, toml: dict[str, Any]) -> None:
        """Write the metadata and the path entry of an editable install by pip."""
        about = toml.get("project")
        if about is None:
            return
        metadata = self.site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
        metadata.mkdir(exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
        points = [
            line
            for group, entries in about.get("entry-points", {}).items()
            for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
        ]
        (metadata / "entry_points.txt").write_text("\n".join(points) + "\n")
        (metadata / "RECORD").write_text(f"{metadata.name}/METADATA,,\r\n{metadata.name}/RECORD,,\r\n", newline="")
        self.patch.syspath_prepend(project / "src" if (project / "src").is_dir() else project)

    def _toml(self, block: Block) -> None:
        try:
            parsed = tomllib.loads(block.text)
        except tomllib.TOMLDecodeError as error:
            raise AssertionError(f"{self._at(block)}: not TOML: {error}") from None
        settings = parsed if block.title == "onnxexp.toml" else parsed.get("tool", {}).get("onnxexp")
        if settings is not None:
            own = self.folder.parent / f"settings-{block.line}"
            own.mkdir()
            (own / Path(block.title or "pyproject.toml").name).write_text(block.text, "utf-8")
            self.patch.chdir(own)
            config.load()
            self.patch.chdir(self.folder)

    def _console(self, block: Block) -> None:
        for command, shown in _commands(block.text):
            words = shlex.split(command, comments=True)
            variables = [word.partition("=") for word in words if re.match(r"ONNXEXP_\w+=", word)]
            words = words[len(variables) :]
            if words[:1] != ["onnxexp"]:
                continue
            self._parsed(block, words[1:])
            if not shown:
                continue
            out = io.StringIO()
            with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                for name, _, value in variables:
                    patch.setenv(name, value)
                cli.main(words[1:])
            self._compare(block, shown, out.getvalue())

    def _parsed(self, block: Block, words: list[str]) -> None:
        try:
            cli._parse(words)
        except UsageError as error:
            raise AssertionError(f"{self._at(block)}: `onnxexp {shlex.join(words)}` is not a command: {error}") from error

    def _at(self, block: Block) -> str:
        return f"{self.page.name}:{block.line}"


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with its output, or lines without prompts."""
    if not text.startswith("$ "):
        yield from ((line, "") for line in text.splitlines() if line.strip())
        return
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.replace("\\\n", "").partition("\n")
        yield command, shown.strip("\n")


def _trimmed(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in text.strip("\n").splitlines())


@contextlib.contextmanager
def _modules_forgotten(folder: Path) -> Iterator[None]:
    """Forget modules that a page wrote; the next page may reuse their names."""
    try:
        yield
    finally:
        for name, module in list(sys.modules.items()):
            if str(vars(module).get("__file__") or "").startswith(str(folder)):
                del sys.modules[name]
        importlib.invalidate_caches()
