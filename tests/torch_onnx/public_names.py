"""The public names of torch.onnx in several releases, in public_names.txt.

``python -m tests.torch_onnx.public_names 2.15.0 FOLDER`` adds those of a release, from the sources in its folder ``torch/onnx``.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

FILE = Path(__file__).with_name("public_names.txt")
Names: TypeAlias = "dict[str, list[str] | None]"
"""Public names of a module, a class's members as ``Class.member``; the parameters of each, None for what is no function."""


def read(folder: Path) -> dict[str, Names]:
    """Read the public names of each public module of a folder ``torch/onnx``, from the sources."""
    found = {}
    for file in sorted(folder.rglob("*.py")):
        path = file.relative_to(folder).with_suffix("")
        parts = path.parts[:-1] if path.name == "__init__" else path.parts
        if not any(part.startswith("_") for part in parts):
            found[".".join(parts)] = dict(sorted(_names(file, folder).items()))
    return found


def _names(file: Path, folder: Path) -> Names:
    """Read the names of one module, those that it imports from other modules of torch.onnx included."""
    tree = ast.parse(file.read_text("utf-8"))
    listed = _listed(tree)
    found: Names = {}
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom):
            source = _source(node, file, folder)
            others = _names(source, folder) if source is not None else {}
            for alias in node.names:
                if alias.name == "*":
                    found |= others
                elif (file.name == "__init__.py" and _of_torch(node)) or alias.name in (listed or ()):
                    found |= _chosen(others, alias.name, alias.asname or alias.name)
        else:
            found |= dict(_defined(node))
    public = {name: parameters for name, parameters in found.items() if not name.startswith("_")}
    if listed is None or file.name == "__init__.py":
        return public
    return {name: parameters for name, parameters in public.items() if name.partition(".")[0] in listed}


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Iterate over the statements of a module that run at its import, without those for type checkers."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _statements(node.body)
        elif not isinstance(node, ast.If):
            yield node


def _listed(tree: ast.Module) -> list[str] | None:
    """Return the module's ``__all__``, or None."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def _of_torch(node: ast.ImportFrom) -> bool:
    return node.level > 0 or (node.module or "").startswith("torch")


def _source(node: ast.ImportFrom, file: Path, folder: Path) -> Path | None:
    """Find the module of torch.onnx that a statement imports from."""
    module = node.module or ""
    base = folder.parents[1] if node.level == 0 else file.parents[node.level - 1]
    found = base.joinpath(*module.split(".")).with_suffix(".py") if module else None
    return found if found is not None and found.exists() and found.is_relative_to(folder) else None


def _chosen(others: Names, name: str, renamed: str) -> Names:
    """Take one name with its members."""
    own = {each: others[each] for each in others if each == name or each.startswith(f"{name}.")}
    return {renamed + each[len(name) :]: parameters for each, parameters in own.items()} or {renamed: None}


def _defined(node: ast.stmt) -> Iterator[tuple[str, list[str] | None]]:
    if isinstance(node, ast.FunctionDef):
        yield node.name, _parameters(node)
    elif isinstance(node, ast.ClassDef):
        yield node.name, None
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                yield f"{node.name}.{member.name}", _parameters(member)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from ((target.id, None) for target in targets if isinstance(target, ast.Name))


def _parameters(node: ast.FunctionDef) -> list[str]:
    """List the parameters of a function by their names, without `self` and `cls`."""
    given = node.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [each.arg for each in named if each.arg not in ("self", "cls")]


@dataclasses.dataclass(frozen=True)
class Row:
    """A public name in the releases in which its parameters are these; None for what is no function."""

    name: str
    releases: tuple[str, ...]
    parameters: tuple[str, ...] | None

    @classmethod
    def of(cls, line: str) -> Row:
        """Read a line of the file."""
        name, releases, parameters = (part.strip() for part in line.split("|"))
        return cls(name, tuple(releases.split()), None if parameters == "-" else tuple(parameters.split()))

    def line(self) -> str:
        """Write the row as a line of the file."""
        return (
            f"{self.name} | {' '.join(self.releases)} | {'-' if self.parameters is None else ' '.join(self.parameters)}".strip()
        )


def rows() -> list[Row]:
    """Read the file's rows."""
    return [Row.of(line) for line in FILE.read_text("utf-8").splitlines() if not line.startswith("#")]


def with_release(known: list[Row], release: str, names: Mapping[str, Names]) -> list[Row]:
    """Add the names of a release to the rows, in place of what they have of it."""
    found = {(row.name, row.parameters): set(row.releases) - {release} for row in known}
    for module, members in names.items():
        for name, parameters in members.items():
            key = f"{module}.{name}".removeprefix("."), None if parameters is None else tuple(parameters)
            found.setdefault(key, set()).add(release)
    made = [Row(name, tuple(sorted(where, key=_version)), parameters) for (name, parameters), where in found.items() if where]
    return sorted(made, key=lambda row: (row.name, list(map(_version, row.releases))))


def _version(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release")
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    made = with_release(rows() if FILE.exists() else [], asked.release, read(asked.folder))
    first = "# name | releases of torch | parameters; written by python -m tests.torch_onnx.public_names"
    FILE.write_text("\n".join([first, *(row.line() for row in made)]) + "\n", "utf-8")
