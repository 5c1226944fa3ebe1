"""The architecture of the core, compared with docs/explanation/architecture.md, and of each plugin.

Every import counts: those for type checkers and those inside functions too. Each check is a function from sources to offences,
which is itself tested on samples that are offences.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.repository.test_sources import KNOWS_OPERATORS

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core" / "onnxexp"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"

OUTSIDE_OF_THE_KERNEL = (
    "__main__.py", "__init__.py", "checking.py", "commands.py", "frontends.py", "graph.py", "rewriting.py", "torch_ops.py",
    "testing/", "_cli/", "_torch_export/",
)  # fmt: skip
"""The public modules, the tools and the frontend of the core's distribution, which the kernel does not import."""
ANNOTATIONS_ONLY = "_plugins/hookspecs.py"
"""The hooks name the types of higher layers in annotations; at run time the file imports pluggy only."""
MAY_KNOW_OPERATORS = {"onnxexp/_torch_export/", "onnxexp/_decompose/", "onnxexp/_functionalize/", "onnxexp/_cli/"}

Sources = Mapping[str, str]
"""The text of each module by its path inside `core/onnxexp`."""


@functools.cache
def core() -> dict[str, str]:
    paths = {path.relative_to(CORE).as_posix(): path for path in sorted(CORE.rglob("*.py"))}
    return {name: path.read_text("utf-8") for name, path in paths.items()}


PLUGINS = [path for path in sorted((ROOT / "plugins").glob("*/onnxexp_*")) if (path / "__init__.py").is_file()]


def plugins() -> dict[str, str]:
    """Read the modules of all plugins, by their paths inside `plugins`."""
    return {f"{folder.parent.name}/{folder.name}/{name}": text for folder in PLUGINS for name, text in plugin(folder).items()}


def plugin(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}


def imported(name: str, sources: Sources, package: str = "onnxexp") -> set[str]:
    """Find the modules of the package that a module imports, at any place in its code."""

    def path(module: str) -> str | None:
        stem = "/".join(module.split(".")[1:])
        found = [each for each in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")) if each in sources]
        return found[0] if found else None

    found: set[str | None] = set()
    for node in ast.walk(ast.parse(sources[name])):
        if isinstance(node, ast.Import):
            found |= {path(alias.name) for alias in node.names if alias.name.split(".")[0] == package}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            assert node.module is not None
            found |= {path(f"{node.module}.{alias.name}") or path(node.module) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{name}:{node.lineno}: import it by its full name")
    return {each for each in found if each is not None} - {name}


def circle(sources: Sources, package: str = "onnxexp") -> list[str]:
    """Find the modules of one cycle of imports; return [] without a cycle."""
    return _cycle({name: imported(name, sources, package) for name in sources if name != ANNOTATIONS_ONLY})


def circle_of_folders(sources: Sources, package: str = "onnxexp") -> list[str]:
    """Find the sub-packages of one cycle of imports; return [] without a cycle."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in sources:
        if "/" in name:
            folder = name.partition("/")[0]
            others = {other.partition("/")[0] for other in imported(name, sources, package) if "/" in other}
            found[folder] |= others - {folder}
    return _cycle(found)


def _cycle(imports: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def layers(page: str) -> dict[str, int]:
    """Return the layer of each package in the page's table."""
    rows = re.findall(r"^\| (\d+) \| `([\w/.]+)` \| .+ \|$", page, re.MULTILINE)
    packages = [package for _, package in rows]
    assert len(set(packages)) == len(packages), "a package is listed twice"
    return {package: int(layer) for layer, package in rows}


def package_of(module: str, packages: Mapping[str, int]) -> str | None:
    """Return the package of a module: the longest entry that its path begins with."""
    entries = (each for each in packages if module == each or (each[-1] == "/" and module.startswith(each)))
    return max(entries, key=len, default=None)


def unlisted(sources: Sources, page: str) -> Iterator[str]:
    """Yield modules without a package in the table, and packages without a module."""
    packages = layers(page)
    found = {name: package_of(name, packages) for name in sources}
    yield from (f"{name} is in no package of the page" for name, package in found.items() if package is None)
    yield from (f"the page lists {package}, which does not exist" for package in packages if package not in found.values())


def upward(sources: Sources, page: str) -> Iterator[str]:
    """Yield imports of a package that is not on a lower layer."""
    packages = layers(page)
    for name in sources:
        package = package_of(name, packages)
        for other in sorted(imported(name, sources)) if name != ANNOTATIONS_ONLY else ():
            target = package_of(other, packages)
            if package is not None and target is not None and package != target and packages[package] <= packages[target]:
                yield f"{name} (layer {packages[package]}) imports {other} (layer {packages[target]})"


def of_the_kernel(sources: Sources) -> Iterator[str]:
    """Yield imports of a frontend, a tool, a public module or a plugin by the kernel."""
    for name, text in sources.items():
        if name.startswith(OUTSIDE_OF_THE_KERNEL):
            continue
        wrong = [other for other in imported(name, sources) if other.startswith(OUTSIDE_OF_THE_KERNEL) and other != "__init__.py"]
        wrong += re.findall(r"^ *(?:from|import) (onnxexp_\w+)", text, re.MULTILINE)
        yield from (f"{name} imports {other}" for other in wrong)


def shared_names(sources: Sources) -> Iterator[str]:
    """Find the names that two files or two public classes share."""
    homes: dict[str, list[str]] = defaultdict(list)
    for name, text in sources.items():
        if not name.endswith("__init__.py"):
            homes[name.rpartition("/")[2]].append(name)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[f"class {node.name}"].append(name)
    yield from (f"{shared} is in {', '.join(where)}" for shared, where in homes.items() if len(where) > 1)


def test_every_module_is_in_a_package_of_the_page() -> None:
    assert not list(unlisted(core(), PAGE.read_text("utf-8")))


def test_imports_go_down() -> None:
    assert not list(upward(core(), PAGE.read_text("utf-8")))


def test_no_import_circle() -> None:
    assert circle(core()) == []


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_no_import_circle_in_a_plugin(folder: Path) -> None:
    assert circle(plugin(folder), folder.name) == []
    assert circle_of_folders(plugin(folder), folder.name) == []


def test_the_kernel_imports_no_frontend_no_tool_and_no_plugin() -> None:
    assert not list(of_the_kernel(core()))


def test_the_hooks_import_pluggy_only() -> None:
    top = ast.parse(core()[ANNOTATIONS_ONLY]).body
    assert {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names} == {"pluggy"}
    assert not [node for node in top if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onnxexp")]


def test_files_and_classes_have_names_of_their_own() -> None:
    assert not list(shared_names(core()))


def test_few_folders_may_know_operators() -> None:
    assert MAY_KNOW_OPERATORS.issuperset(KNOWS_OPERATORS)


TABLE = "| 1 | `top/` | Above. |\n| 0 | `low.py` | Below. |\n"


@pytest.mark.parametrize(
    ("check", "sources"),
    [
        (lambda sources: unlisted(sources, TABLE), {"top/a.py": "", "low.py": "", "new.py": ""}),
        (lambda sources: unlisted(sources, TABLE), {"top/a.py": ""}),
        (lambda sources: upward(sources, TABLE), {"top/a.py": "", "low.py": "from onnxexp.top import a"}),
        (lambda sources: upward(sources, TABLE), {"top/a.py": "", "low.py": "def f():\n    from onnxexp.top.a import x"}),
        (lambda sources: upward(sources, TABLE), {"top/a.py": "", "low.py": "if TYPE_CHECKING:\n    import onnxexp.top.a"}),
        (circle, {"a.py": "from onnxexp.b import x", "b.py": "def f():\n    from onnxexp.a import y"}),
        (circle, {"a.py": "if TYPE_CHECKING:\n    from onnxexp import b", "b.py": "import onnxexp.a"}),
        (circle, {"a.py": "from onnxexp.p import x", "p/__init__.py": "from onnxexp.a import y"}),
        (
            circle_of_folders,
            {"a/b.py": "from onnxexp.c.d import x", "c/d.py": "", "c/e.py": "from onnxexp.a.f import y", "a/f.py": ""},
        ),
        (of_the_kernel, {"_a.py": "from onnxexp._cli import x", "_cli/__init__.py": ""}),
        (of_the_kernel, {"_a.py": "def f():\n    import onnxexp_aten"}),
        (shared_names, {"a/same.py": "", "b/same.py": ""}),
        (shared_names, {"a.py": "class Same: ...", "b.py": "class Same: ..."}),
    ],
)
def test_checks_find_what_they_look_for(check: Callable[[Sources], object], sources: Sources) -> None:
    found = check(sources)
    assert list(found) if isinstance(found, Iterator) else found


@pytest.mark.parametrize(
    ("check", "sources"),
    [
        (lambda sources: unlisted(sources, TABLE), {"top/a.py": "", "low.py": ""}),
        (lambda sources: upward(sources, TABLE), {"top/a.py": "from onnxexp import low", "low.py": "import torch"}),
        (lambda sources: upward(sources, TABLE), {"top/a.py": "from onnxexp.top.b import x", "top/b.py": "", "low.py": ""}),
        (circle, {"a.py": "from onnxexp.b import x", "b.py": "import torch"}),
        (circle_of_folders, {"a/b.py": "from onnxexp.a.c import x\nfrom onnxexp.d.e import y", "a/c.py": "", "d/e.py": ""}),
        (shared_names, {"a/__init__.py": "class _Own: ...", "b/__init__.py": "class _Own: ..."}),
    ],
)
def test_checks_leave_the_rest_alone(check: Callable[[Sources], object], sources: Sources) -> None:
    found = check(sources)
    assert not (list(found) if isinstance(found, Iterator) else found)


def test_the_page_gives_the_layers() -> None:
    assert layers(TABLE) == {"top/": 1, "low.py": 0}
    with pytest.raises(AssertionError, match="twice"):
        layers(TABLE + "| 2 | `low.py` | Again. |\n")
