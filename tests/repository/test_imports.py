"""No import cycles: each module can be the first that a program imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def sources() -> dict[str, str]:
    """Read every module of the core and the plugins, by its name."""
    roots = [ROOT / "core", *(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
    files = [(root, path) for root in roots for path in root.glob("onnxexp*/**/*.py")]
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path.read_text("utf-8")
        for root, path in files
        if "templates" not in path.parts
    }


def run_at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run with a module, outside of functions and type checks."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif isinstance(statement, ast.If):
            yield from run_at_import(statement.orelse)
            if ast.unparse(statement.test) != "TYPE_CHECKING":
                yield from run_at_import(statement.body)
        elif isinstance(statement, (ast.Try, ast.With)):
            yield from run_at_import(statement.body)


def packages_around(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def imported(name: str, text: str, known: Mapping[str, str]) -> set[str]:
    """Find the modules that must be complete before this one, except its packages."""
    found: set[str] = set()
    for statement in run_at_import(ast.parse(text).body):
        if isinstance(statement, ast.Import):
            found.update(alias.name for alias in statement.names)
        elif statement.module is not None:
            members = {f"{statement.module}.{alias.name}" for alias in statement.names}
            found |= members & known.keys()
            if not members <= known.keys():
                found.add(statement.module)
    around = set().union(*(packages_around(each) for each in found)) - packages_around(name)
    return ((found | around) & known.keys()) - {name}


def cycle(texts: Mapping[str, str]) -> list[str]:
    """Find the modules of one cycle of imports; return [] without a cycle."""
    try:
        TopologicalSorter({name: imported(name, text, texts) for name, text in texts.items()}).prepare()
    except CycleError as error:
        modules: list[str] = error.args[1]
        return modules
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    texts = sources()
    assert len(texts) > 100
    assert cycle(texts) == []


def test_a_cycle_is_found() -> None:
    texts = {"p": "", "p.a": "from p.b import x", "p.b": "import p.c", "p.c": "try:\n    from p import a\nfinally:\n    pass"}
    assert {*cycle(texts)} == {"p.a", "p.b", "p.c"}
    assert cycle(texts | {"p.c": "def later():\n    from p import a"}) == []
