"""The architecture of the core, compared with docs/explanation/architecture.md.

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

from tests.core.test_repository import KNOWS_OPERATORS

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core" / "onnxexp"
PAGE = ROOT / "docs" / "explanation" / "architecture.md"

MAX_LOOSE_FILES = 10
MAY_KNOW_OPERATORS = {"onnxexp/capture/torch_export/", "onnxexp/functionalize/", "onnxexp/cli/"}

Sources = Mapping[str, str]
"""The text of each module by its path inside `core/onnxexp`."""


@functools.cache
def core() -> dict[str, str]:
    paths = {path.relative_to(CORE).as_posix(): path for path in sorted(CORE.rglob("*.py"))}
    return {name: path.read_text("utf-8") for name, path in paths.items()}


@functools.cache
def plugins() -> dict[str, str]:
    files = [path for path in sorted((ROOT / "plugins").glob("*/onnxexp_*/**/*.py")) if "build" not in path.parts]
    return {path.relative_to(ROOT / "plugins").as_posix(): path.read_text("utf-8") for path in files}


def imported(name: str, sources: Sources) -> set[str]:
    """Find the modules of the core that a module imports, at any place in its code."""

    def path(module: str) -> str | None:
        stem = "/".join(module.split(".")[1:])
        found = [each for each in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")) if each in sources]
        return found[0] if found else None

    found: set[str | None] = set()
    for node in ast.walk(ast.parse(sources[name])):
        if isinstance(node, ast.Import):
            found |= {path(alias.name) for alias in node.names if alias.name.split(".")[0] == "onnxexp"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "onnxexp":
            assert node.module is not None
            found |= {path(f"{node.module}.{alias.name}") or path(node.module) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{name}:{node.lineno}: import it by its full name")
    return {each for each in found if each is not None} - {name}


def circle(sources: Sources) -> list[str]:
    """Find the modules of one cycle of imports; return [] without a cycle."""
    try:
        TopologicalSorter({name: imported(name, sources) for name in sources}).prepare()
    except CycleError as error:
        modules: list[str] = error.args[1]
        return modules
    return []


def floors(page: str) -> dict[str, int]:
    """Read the floor of each room from the page's table."""
    rows = re.findall(r"^\| (\d+) \| `([\w/.]+)` \| .+ \|$", page, re.MULTILINE)
    rooms = [room for _, room in rows]
    assert len(set(rooms)) == len(rooms), "a room is listed twice"
    return {room: int(floor) for floor, room in rows}


def room_of(module: str, rooms: Mapping[str, int]) -> str | None:
    """Find the room of a module: the longest entry that its path begins with."""
    return max((room for room in rooms if module == room or (room[-1] == "/" and module.startswith(room))), key=len, default=None)


def unlisted(sources: Sources, page: str) -> Iterator[str]:
    """Name the modules without a room, and the rooms without a module."""
    rooms = floors(page)
    found = {name: room_of(name, rooms) for name in sources}
    yield from (f"{name} is in no room of the page" for name, room in found.items() if room is None)
    yield from (f"the page lists {room}, which does not exist" for room in rooms if room not in found.values())


def upward(sources: Sources, page: str) -> Iterator[str]:
    """Name the imports from a room into another one that is not on a lower floor."""
    rooms = floors(page)
    for name in sources:
        room = room_of(name, rooms)
        for other in sorted(imported(name, sources)):
            target = room_of(other, rooms)
            if room is not None and target is not None and room != target and rooms[room] <= rooms[target]:
                yield f"{name} (floor {rooms[room]}) imports {other} (floor {rooms[target]})"


def loose_files(sources: Sources) -> Iterator[str]:
    loose = [name for name in sources if "/" not in name]
    if len(loose) > MAX_LOOSE_FILES:
        yield f"{len(loose)} loose files, the limit is {MAX_LOOSE_FILES}: {', '.join(loose)}"


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


def test_every_module_is_in_a_room_of_the_page() -> None:
    assert not list(unlisted(core(), PAGE.read_text("utf-8")))


def test_imports_go_down() -> None:
    assert not list(upward(core(), PAGE.read_text("utf-8")))


def test_no_import_circle() -> None:
    assert circle(core()) == []


def test_few_files_are_loose() -> None:
    assert not list(loose_files(core()))


def test_files_and_classes_have_names_of_their_own() -> None:
    assert not list(shared_names(core()))


def test_few_folders_may_know_operators() -> None:
    assert MAY_KNOW_OPERATORS.issuperset(KNOWS_OPERATORS)


HOUSE = "| 1 | `top/` | Above. |\n| 0 | `low.py` | Below. |\n"


@pytest.mark.parametrize(
    ("check", "sources"),
    [
        (lambda sources: unlisted(sources, HOUSE), {"top/a.py": "", "low.py": "", "new.py": ""}),
        (lambda sources: unlisted(sources, HOUSE), {"top/a.py": ""}),
        (lambda sources: upward(sources, HOUSE), {"top/a.py": "", "low.py": "from onnxexp.top import a"}),
        (lambda sources: upward(sources, HOUSE), {"top/a.py": "", "low.py": "def f():\n    from onnxexp.top.a import x"}),
        (lambda sources: upward(sources, HOUSE), {"top/a.py": "", "low.py": "if TYPE_CHECKING:\n    import onnxexp.top.a"}),
        (circle, {"a.py": "from onnxexp.b import x", "b.py": "def f():\n    from onnxexp.a import y"}),
        (circle, {"a.py": "if TYPE_CHECKING:\n    from onnxexp import b", "b.py": "import onnxexp.a"}),
        (circle, {"a.py": "from onnxexp.p import x", "p/__init__.py": "from onnxexp.a import y"}),
        (loose_files, {f"file{number}.py": "" for number in range(11)}),
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
        (lambda sources: unlisted(sources, HOUSE), {"top/a.py": "", "low.py": ""}),
        (lambda sources: upward(sources, HOUSE), {"top/a.py": "from onnxexp import low", "low.py": "import torch"}),
        (lambda sources: upward(sources, HOUSE), {"top/a.py": "from onnxexp.top.b import x", "top/b.py": "", "low.py": ""}),
        (circle, {"a.py": "from onnxexp.b import x", "b.py": "import torch"}),
        (shared_names, {"a/__init__.py": "class _Own: ...", "b/__init__.py": "class _Own: ..."}),
    ],
)
def test_checks_leave_the_rest_alone(check: Callable[[Sources], object], sources: Sources) -> None:
    found = check(sources)
    assert not (list(found) if isinstance(found, Iterator) else found)


def test_the_page_gives_the_floors() -> None:
    assert floors(HOUSE) == {"top/": 1, "low.py": 0}
    with pytest.raises(AssertionError, match="twice"):
        floors(HOUSE + "| 2 | `low.py` | Again. |\n")
