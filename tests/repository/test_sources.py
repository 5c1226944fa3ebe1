"""Rules of CONTRIBUTING.md that a machine can check: sizes, imports, printing.

Each check is a function from a parsed module to its offences. The tests run it on the repository, which must have no offence, and
on a line that must be one.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import importlib.util
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import onnxexp
from tests.core.api import DOORS

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core"
PLUGINS = ROOT / "plugins"

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 45
GOOD_FUNCTION_LINES = 40
MAX_LONG_FUNCTIONS = 10
MAX_FIRST_LINE = 80

KNOWS_OPERATORS = ("onnxexp/_torch_export/", "onnxexp/_decompose/", "onnxexp/_functionalize/", "onnxexp/_cli/")
"""Where the core may name torch's operators: what torch's frontends produce has to be taken apart by name, and help
texts and templates give examples."""


@dataclasses.dataclass(frozen=True)
class Module:
    """A source file: its name in `core` or in its plugin's folder, text and tree."""

    name: str
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)


Check = Callable[[Module], Iterator[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def modules(root: Path) -> tuple[Module, ...]:
    files = sorted(path for path in root.rglob("*.py") if "build" not in path.relative_to(root).parts)
    return tuple(Module(path.relative_to(root).as_posix(), path.read_text("utf-8")) for path in files)


def offences(check: Check, *roots: Path) -> list[str]:
    return [f"{module.name}:{offence}" for root in roots for module in modules(root) for offence in check(module)]


def ancestors(node: ast.AST, tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes around a node, from the inside out."""
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    while node in parents:
        node = parents[node]
        yield node


def docstrings(tree: ast.Module) -> set[ast.AST]:
    """Find the string statements: docstrings, and those under constants or attributes."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}


def body_lines(function: Function) -> int:
    """Count the lines of a function's body, without its signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def long_functions(module: Module, limit: int) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, Function) and (lines := body_lines(node)) > limit:
            yield f"{node.lineno}: {node.name} has {lines} lines, the limit is {limit}"


def long_file(module: Module) -> Iterator[str]:
    if (lines := len(module.text.splitlines())) > MAX_FILE_LINES:
        yield f" {lines} lines, the limit is {MAX_FILE_LINES}"


def long_first_lines(module: Module) -> Iterator[str]:
    """Name docstrings with a too long first line; a symbolic's is the torch schema."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
            first = text.splitlines()[0]
            if len(first) > MAX_FIRST_LINE and not (isinstance(node, Function) and _SCHEMA.match(first)):
                line = node.body[0].lineno
                yield f"{line}: the docstring's first line has {len(first)} characters, the limit is {MAX_FIRST_LINE}"


_SCHEMA = re.compile(r"(\w+::)?\w+(\.\w+)?\(")
"""The start of a torch schema: ``add(`` or ``aten::add.Tensor(``."""


@functools.cache
def public_modules() -> dict[str, frozenset[str]]:
    """List the public modules of core and plugins, each with its public names.

    The plugins' are those that docs/reference/api lists.
    """
    found = {door: frozenset(importlib.import_module(door).__all__) for door in DOORS}
    for page in sorted((ROOT / "docs" / "reference" / "api").glob("*.md")):
        for name, options in _DIRECTIVE.findall(page.read_text("utf-8")):
            file = _module_file(name)
            if file is not None:
                members = re.search(r"members: \[([\w, ]+)\]", options)
                listed = members[1].split(", ") if members else _exported(ast.parse(file.read_text("utf-8")))
                found[name] = found.get(name, frozenset()) | frozenset(listed)
                continue
            module, _, member = name.rpartition(".")
            if _module_file(module) is not None:
                found[module] = found.get(module, frozenset()) | {member}
    return found


def _module_file(name: str) -> Path | None:
    """Return the source file of a module of a plugin; None where there is no such module."""
    for path in (root.joinpath(*name.split(".")) for root in sorted(PLUGINS.iterdir())):
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if file.is_file():
            return file
    return None


_DIRECTIVE = re.compile(r"^::: (onnxexp_[\w.]*)$(?:\n    options: (.*))?", re.MULTILINE)


def _exported(tree: ast.Module) -> list[str]:
    """Return the names in a module's ``__all__``."""
    lists = (node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
    return [name for found in lists for name in ast.literal_eval(found)]


def _is_of_others(imported: str | None, module: Module) -> bool:
    """Return whether a module is the core's, or another plugin's."""
    package = (imported or "").partition(".")[0]
    return (
        package != imported
        if package == "onnxexp"
        else package.startswith("onnxexp_") and f"/{package}/" not in f"/{module.name}"
    )


def private_imports(module: Module) -> Iterator[str]:
    """Name a plugin's imports from onnxexp or another plugin that are not public."""
    public = {*onnxexp.__all__, *(door.partition(".")[2] for door in DOORS)}
    modules = public_modules()
    own_names = {"onnxexp"}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            own_names.update(alias.asname for alias in node.names if alias.name == "onnxexp" and alias.asname)
            taken = [alias.name for alias in node.names if alias.name.startswith("onnxexp.") and alias.name not in modules]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module == "onnxexp":
            taken = [alias.name for alias in node.names if alias.name not in public]
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_of_others(node.module, module):
            names = modules.get(node.module or "", frozenset())
            taken = [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in own_names:
            taken = [] if node.attr in public else [node.attr]
        else:
            continue
        yield from (f"{node.lineno}: {name} is not public" for name in taken)


@functools.cache
def core_attributes() -> frozenset[str]:
    """Collect the private methods and attributes of the core's classes."""
    found = set()
    for module in modules(CORE):
        classes = [node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
        found |= {each.name for node in classes for each in node.body if isinstance(each, Function)}
        found |= {each.attr for each in _own_attributes(module.tree)}
    return frozenset(name for name in found if name.startswith("_") and not name.startswith("__"))


def _own_attributes(tree: ast.Module) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node


def private_attributes(module: Module) -> Iterator[str]:
    """Name a plugin's uses of private attributes of the core: `op._state`, `x._value`."""
    own = {node.name for node in ast.walk(module.tree) if isinstance(node, Function)}
    private = core_attributes() - own - {each.attr for each in _own_attributes(module.tree)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            of_op = isinstance(node.value, ast.Name) and node.value.id == "op"
            if (node.attr in private and ast.unparse(node.value) != "torch") or (
                of_op and (node.attr.startswith("_") or node.attr in ("state", "notes"))
            ):
                yield f"{node.lineno}: {ast.unparse(node)} is private"


@functools.cache
def torch_operators() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of ATen's operators, and those with overloads (``add.Tensor``)."""
    schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")]
    plain = {schema.name.removeprefix("aten::") for schema in schemas}
    overloads = {f"{schema.name.removeprefix('aten::')}.{schema.overload_name}" for schema in schemas if schema.overload_name}
    return frozenset(plain), frozenset(overloads)


def _strings(*nodes: ast.AST) -> Iterator[ast.Constant]:
    for node in itertools.chain.from_iterable(map(ast.walk, nodes)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node


def _asks_for_op(node: ast.AST) -> bool:
    """Return whether an expression reads an operator's name; `op` is the builder."""
    attributes = {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    return bool(attributes & {"op", "target"}) or (isinstance(node, ast.Name) and node.id in {"op_name", "target"})


def _dispatching(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the strings that an operator's name is compared with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(map(_asks_for_op, [node.left, *node.comparators])):
            yield from _strings(node)
        elif isinstance(node, ast.Match) and _asks_for_op(node.subject):
            yield from _strings(*(case.pattern for case in node.cases))
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict) and _asks_for_op(node.slice):
            yield from _strings(*(key for key in node.value.keys if key))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _asks_for_op(node.func.value):
            yield from _strings(*node.args)  # node.op.startswith("add")


def operator_names(module: Module) -> Iterator[str]:
    """Name the places where a module of the core refers to an ATen operator."""
    if module.name.startswith(KNOWS_OPERATORS):
        return
    plain, overloads = torch_operators()
    prose = docstrings(module.tree)
    for text in _strings(module.tree):
        if text not in prose and (any(ns in text.value for ns in ("aten::", "ops.aten.")) or text.value in overloads):
            yield f"{text.lineno}: names the operator {text.value!r}"
    for text in _dispatching(module.tree):
        if text.value in plain:
            yield f"{text.lineno}: treats the operator {text.value!r} on its own"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.ops.aten."):
            yield f"{node.lineno}: {ast.unparse(node)}"


def prints(module: Module) -> Iterator[str]:
    """Name writes to stdout outside the command line, not guarded by `verbose`."""
    if "/_cli/" in module.name or "/commands" in module.name:
        return
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in {"print", "sys.stdout.write"}:
            continue
        if not any(isinstance(step, ast.If) and "verbose" in ast.unparse(step.test) for step in ancestors(node, module.tree)):
            yield f"{node.lineno}: {ast.unparse(node)}"


_EVALUATES = {
    "eval", "exec", "pickle.load", "pickle.loads", "marshal.load", "marshal.loads", "shelve.open", "dill.load", "yaml.load",
    "sympy.parse_expr", "sympy.parsing.sympy_parser.parse_expr",
}  # fmt: skip


def evaluations(module: Module) -> Iterator[str]:
    """Name calls that run a text as code; `sympify` does so without `strict`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            strict = any(each.arg == "strict" and ast.unparse(each.value) == "True" for each in node.keywords)
            name = ast.unparse(node.func)
            if name in _EVALUATES or (name in ("sympify", "sympy.sympify") and not strict):
                yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_text_is_evaluated() -> None:
    assert not offences(evaluations, CORE, PLUGINS)


def test_files_are_short() -> None:
    assert not offences(long_file, CORE, PLUGINS)


def test_functions_are_short() -> None:
    assert not offences(lambda module: long_functions(module, MAX_FUNCTION_LINES), CORE, PLUGINS)
    longer = offences(lambda module: long_functions(module, GOOD_FUNCTION_LINES), CORE, PLUGINS)
    assert len(longer) <= MAX_LONG_FUNCTIONS, longer


def test_docstrings_begin_with_a_short_line() -> None:
    assert not offences(long_first_lines, CORE, PLUGINS)


def test_plugins_use_public_names_only() -> None:
    assert not offences(private_imports, PLUGINS, ROOT / "examples")
    assert not offences(private_attributes, PLUGINS, ROOT / "examples")


def test_public_modules_of_plugins_are_documented_by_name() -> None:
    """What a page lists is in the module's ``__all__``."""
    for name, members in public_modules().items():
        if importlib.util.find_spec(name.partition(".")[0]) is not None:  # the plugin may not be installed
            assert members and members <= {*importlib.import_module(name).__all__}, name


def test_public_names_exist() -> None:
    assert len(set(onnxexp.__all__)) == len(onnxexp.__all__)
    assert [name for name in onnxexp.__all__ if name not in dir(onnxexp)] == []


def test_core_knows_no_operator() -> None:
    assert not offences(operator_names, CORE)


def test_core_imports_no_plugin() -> None:
    packages = {path.parent.name for path in PLUGINS.glob("*/*/__init__.py")}

    def imports(module: Module) -> Iterator[str]:
        for node in ast.walk(module.tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            yield from (f"{node.lineno}: imports {name}" for name in names if name.split(".")[0] in packages)

    assert not offences(imports, CORE)


def test_torch_onnx_is_a_peer_not_a_dependency() -> None:
    """torch.onnx stays unused, but for the flag of `torch.onnx.is_in_onnx_export()`.

    Models read that flag, and it must be True. The plugin's `onnxexp_torch_onnx/torch_onnx_state.py` finds torch.onnx's
    modules by name, where others have imported them.
    """
    peer = ("torch.onnx.export", "torch.onnx._internal", "torch.onnx.symbolic", "_jit_pass_onnx")
    flag = "from torch.onnx._internal.exporter import _flags"

    def uses(module: Module) -> Iterator[str]:
        for node in ast.walk(module.tree):
            taken = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Import | ast.ImportFrom) else ""
            if taken != flag and any(name in taken for name in peer):
                yield f"{node.lineno}: {taken}"

    assert not offences(uses, CORE, PLUGINS)


def test_nothing_prints_unasked() -> None:
    assert not offences(prints, CORE, PLUGINS)


def test_every_distribution_is_typed_and_licensed() -> None:
    for project in [ROOT, *(path.parent for path in PLUGINS.glob("*/pyproject.toml"))]:
        package = CORE / "onnxexp" if project == ROOT else next(project.glob("onnxexp_*/__init__.py")).parent
        assert (package / "py.typed").is_file(), project
        assert (project / "LICENSE").is_file(), project
        assert (project / "README.md").is_file(), project


NODE = "def f(node):\n    "


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (long_file, "x = 1\n" * 401),
        (lambda module: long_functions(module, 45), "def f():\n" + "    x = 1\n" * 46),
        (long_first_lines, f'"""{"x" * 81}"""'),
        (long_first_lines, f'"""add({"x" * 81}"""'),
        (long_first_lines, f'class C:\n    """{"x" * 81}\n\n    More.\n    """'),
        (long_first_lines, f'def f():\n    """One (or {"x" * 81})."""'),
        (private_imports, "from onnxexp._builder.builder import Builder"),
        (private_imports, "from onnxexp import no_such_public_name"),
        (private_imports, "import onnxexp._builder.builder"),
        (private_imports, "from onnxexp._capture.source_lines import _innermost"),
        (private_imports, "from onnxexp._capture.source_lines import metadata_location"),
        (private_imports, "from onnxexp._builder.graph_state import Scope"),
        (private_imports, "import onnxexp as ox\nox._neutral_graph"),
        (private_imports, "from onnxexp_aten.passes.compose_views import no_such_rule"),
        (private_attributes, "def f(op):\n    return op._state"),
        (private_attributes, "def f(op):\n    return op.state.tensors"),
        (private_attributes, "def f(op, x):\n    return x._value"),
        (private_attributes, "def f(op):\n    return op.Add(1, 2)._dtype"),
        (operator_names, 'NAMES = ["aten::abs"]'),
        (operator_names, 'NAMES = {"add.Tensor": 1}'),
        (operator_names, 'def f():\n    return f"{1} aten::abs"'),
        (operator_names, "import torch\nx = torch.ops.aten.add.Tensor"),
        (operator_names, NODE + 'return node.op == "relu"'),
        (operator_names, NODE + 'return node.op in ("relu", "gelu")'),
        (operator_names, NODE + 'return node.op.startswith("relu")'),
        (operator_names, NODE + 'return {"relu": 1}[node.op]'),
        (operator_names, NODE + 'match node.op:\n        case "relu":\n            return 1'),
        (prints, "print(1)"),
        (evaluations, "eval(text)"),
        (evaluations, "value = sympy.sympify(text)"),
        (evaluations, "import pickle\npickle.load(file)"),
        (prints, "import sys\nsys.stdout.write('')"),
    ],
)
def test_checks_find_what_they_look_for(check: Check, source: str) -> None:
    assert list(check(Module("onnxexp/sample.py", source)))


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (lambda module: long_functions(module, 45), 'def f():\n    """One.\n' + "\n" * 50 + '    """\n'),
        (long_first_lines, f'def f():\n    """{"x" * 80}\n\n    {"x" * 81}\n    """'),
        (long_first_lines, f'def add(op):\n    """add.Tensor(Tensor self, {"x" * 81}) -> Tensor"""'),
        (private_imports, "import onnxexp.testing\nfrom onnxexp.testing import Case\nfrom . import onnxexp_other"),
        (private_imports, "from onnxexp.graph import Node\nimport onnxexp\nonnxexp.graph.Node"),
        (private_imports, "from onnxexp_aten.passes.compose_views import ComposeViews"),
        (private_attributes, "import torch\nx = torch._C._get_tracing_state()"),
        (
            private_attributes,
            "class C:\n    def __init__(self):\n        self._x = 1\n    def same(self, other):\n        return other._x",
        ),
        (operator_names, '"""Such as aten::abs and `add.Tensor`."""\nKIND = "relu"'),
        (operator_names, NODE + 'return node.op == "prim::If"'),
        (evaluations, "model.eval()\nsympy.sympify(size, strict=True)"),
        (prints, "def f(verbose):\n    if verbose:\n        print(1)"),
    ],
)
def test_checks_leave_the_rest_alone(check: Check, source: str) -> None:
    assert not list(check(Module("onnxexp/sample.py", source)))
