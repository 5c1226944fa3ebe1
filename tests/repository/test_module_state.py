"""Module-level state: no function writes to an object that outlives the export.

The check reads the syntax trees. It follows an object at module level, through imports inside the project, through aliases in a
function, and through classes. Three things are allowed: caches by `functools`; context variables that a function sets and
resets; objects of Python and torch that a function restores in a `finally`. Two tables list everything else.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

import pytest

from tests.repository.test_architecture import Sources, core, plugins

OUTLIVES_AN_EXPORT: dict[tuple[str, str], str] = {
    ("custom_cpp/onnxexp_custom_cpp/registry.py", "REGISTERED"): (
        "register_op is for the process, as TORCH_LIBRARY is; a plugin has a table of its own"
    ),
    ("torch_onnx/onnxexp_torch_onnx/installation.py", "_INSTALLED"): "install() is for the process, until uninstall()",
    ("torch_onnx/onnxexp_torch_onnx/registry.py", "_REGISTRY"): (
        "torch.onnx documents that register_custom_op_symbolic changes all later exports of the process"
    ),
}
"""The project's objects that outlive an export, by file and name, each with the reason."""

OF_OTHERS: dict[tuple[str, str], str] = {
    ("_cli/model_target.py", "sys"): "the command line imports the user's module as Python imports a script",
    ("_cli/standard_streams.py", "sys"): "the command line replaces standard streams that are closed",
    ("_plugins/isolated_import.py", "sys"): "unloads the modules of a failed import",
    ("autograd/onnxexp_autograd/interception.py", "FunctionMeta"): "torch's metaclass, restored when no thread captures",
    ("autograd/onnxexp_autograd/interception.py", "torch_function"): "torch's module, restored when no thread captures",
    ("torch_onnx/onnxexp_torch_onnx/__main__.py", "os"): "a command that runs a program, and those that the program starts",
    ("torch_onnx/onnxexp_torch_onnx/__main__.py", "sys"): "a command that runs a program as Python does",
    ("aten/onnxexp_aten/capture/computed_numbers/elementwise.py", "table"): "filled by decorators while the module is imported",
    ("aten/onnxexp_aten/capture/computed_numbers/losses.py", "table"): "filled by decorators while the module is imported",
    ("aten/onnxexp_aten/capture/computed_numbers/norms.py", "table"): "filled by decorators while the module is imported",
    ("aten/onnxexp_aten/capture/computed_numbers/resizing.py", "table"): "filled by decorators while the module is imported",
}
"""Objects of Python and torch that a function writes to without restoring them itself, each with the reason."""

CHANGES = frozenset(
    [
        *("__setattr__", "__setitem__", "add", "append", "appendleft", "clear", "difference_update", "discard", "extend"),
        *("extendleft", "insert", "intersection_update", "pop", "popitem", "popleft", "remove", "reverse", "rotate"),
        *("setdefault", "sort", "subtract", "symmetric_difference_update", "update"),
    ]
)
"""Methods that change a list, a dict, a set, a deque or a Counter."""
MUTABLE = frozenset(["Counter", "OrderedDict", "bytearray", "defaultdict", "deque", "dict", "list", "set"])
BLOCKS = (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.ExceptHandler)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclasses.dataclass(frozen=True)
class Write:
    """A write to an object that outlives the function."""

    module: str
    line: int
    name: str
    text: str


@dataclasses.dataclass(frozen=True)
class Names:
    """The names of a module whose objects outlive its functions.

    Attributes:
        shared: The module's own names and the imported ones.
        foreign: The names imported from other projects.
        modules: The names of imported modules.
        made_by: The class or function that a name's object comes from.
        cached: Calls of the functions whose results `functools` keeps, ``f()``.
    """

    shared: frozenset[str]
    foreign: frozenset[str]
    modules: frozenset[str]
    made_by: Mapping[str, str]
    cached: frozenset[str]


def module_state(sources: Sources) -> Iterator[Write]:
    """Find the writes of functions to objects that outlive them."""
    trees = {name: ast.parse(text) for name, text in sources.items()}
    classes = {name: [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)] for name, tree in trees.items()}
    changing = {each.name: _changing_methods(each) for found in classes.values() for each in found}
    stems = {Path(name).stem for name in sources}
    instantiated = {made_by for tree in trees.values() for made_by in _names(tree, stems).made_by.values()}
    for name, tree in trees.items():
        names = _names(tree, stems)
        functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
        found = [write for function in functions for write in _writes(function, names, changing)]
        found += [write for each in classes[name] for write in _class_writes(each, instantiated)]
        found += [(node, node.name) for node in tree.body if isinstance(node, ast.FunctionDef) and _caches_tensors(node)]
        yield from (Write(name, node.lineno, owner, ast.unparse(node)) for node, owner in dict.fromkeys(found))


def _names(tree: ast.Module, modules: Container[str]) -> Names:
    """Collect the names of a module; `modules` are the stems of the project's files."""
    values = {name: value for statement in tree.body for name, value in _bound(statement)}
    made_by = {name: ast.unparse(value.func).rpartition(".")[2] for name, value in values.items() if isinstance(value, ast.Call)}
    cached = (each.name for each in tree.body if isinstance(each, ast.FunctionDef) and "cache" in _decorators(each))
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    foreign = {name for node in imports if not _is_of_project(node) for name, _ in _bound(node)}
    found = {name for node in imports for name, _ in _bound(node) if isinstance(node, ast.Import) or name in modules}
    calls = frozenset(f"{name}()" for name in cached)
    return Names(frozenset(values), frozenset(foreign), frozenset(found), made_by, calls)


def _is_of_project(node: ast.Import | ast.ImportFrom) -> bool:
    module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
    return (module or "").startswith("onnxexp")


def _caches_tensors(function: ast.FunctionDef) -> bool:
    """Return whether `functools` caches tensors, which two exports could share."""
    return "cache" in _decorators(function) and function.returns is not None and "Tensor" in ast.unparse(function.returns)


def _decorators(function: ast.FunctionDef) -> str:
    return " ".join(map(ast.unparse, function.decorator_list))


def _bound(statement: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """Yield the names that a statement binds, each with its value."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
        yield from ((name, statement.value) for name in names)
    elif isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield statement.name, None
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name.partition(".")[0], None) for alias in statement.names)
    elif isinstance(statement, BLOCKS):
        for child in ast.iter_child_nodes(statement):
            yield from _bound(child)


def _writes(function: Function, names: Names, changing: Mapping[str, set[str]]) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield a function's writes to shared objects, each with the object's name."""
    visible = _visible(function, names)
    tries = [node for node in ast.walk(function) if isinstance(node, ast.Try)]
    last = [node for each in tries for statement in each.finalbody for node in ast.walk(statement)]
    restored = names.foreign & {_root(changed) for node in last for changed in _changed(node)}
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield node, node.names[0]
        roots = {_root(changed) for changed in _changed(node) if not _is_function_of_module(node, names)}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            made_by = names.made_by.get(ast.unparse(node.func.value), "")
            if node.func.attr in changing.get(made_by, ()) or _is_set_for_good(node.func, made_by, function):
                roots.add(_root(node.func))
        elif isinstance(node, ast.Call) and "__call__" in changing.get(names.made_by.get(ast.unparse(node.func), ""), ()):
            roots.add(ast.unparse(node.func))
        for root in roots - restored:
            if root in visible and isinstance(node, (ast.expr, ast.stmt)):
                yield node, visible[root]


def _is_function_of_module(node: ast.AST, names: Names) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in names.modules


def _is_set_for_good(method: ast.Attribute, made_by: str, function: Function) -> bool:
    """Return whether a call sets a context variable that the function does not reset."""
    calls = (ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call))
    return made_by == "ContextVar" and method.attr == "set" and f"{ast.unparse(method.value)}.reset" not in calls


def _visible(function: Function, names: Names) -> dict[str, str]:
    """Map each name in a function to its shared object, aliases included."""
    nodes = list(ast.walk(function))
    local = {node.arg for node in nodes if isinstance(node, ast.arg)}
    local |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    visible = {name: name for name in (names.shared | names.cached | {"globals()"}) - local}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _root(node.value) in visible:
            visible[node.targets[0].id] = visible[_root(node.value)]
    return visible


def _changed(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions whose objects a node changes."""
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.value
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr", "next", "object.__setattr__"):
        yield node.args[0]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        yield node.func.value


def _root(node: ast.expr) -> str:
    """Return the root: `x` for ``vars(x)["y"]``, `type(self)` for ``__class__``."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            return f"type({ast.unparse(node.value)})"
        node = node.value
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "vars" and node.args:
        return _root(node.args[0])
    if isinstance(node, ast.Call) and ast.unparse(node.func) not in ("type", "globals"):
        return f"{ast.unparse(node.func)}()"
    return ast.unparse(node)


def _first(function: ast.FunctionDef) -> str:
    parameters = (*function.args.posonlyargs, *function.args.args)
    return parameters[0].arg if parameters else ""


def _changing_methods(owner: ast.ClassDef) -> set[str]:
    """List the methods of a class that write to their instance."""
    methods = [node for node in owner.body if isinstance(node, ast.FunctionDef)]
    return {each.name for each in methods if any(_root(it) == _first(each) for node in ast.walk(each) for it in _changed(node))}


def _class_writes(owner: ast.ClassDef, instantiated: Container[str]) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield writes of methods to the class, its mutable objects, or a plugin instance."""
    shared = {name for statement in owner.body for name, value in _bound(statement) if _is_mutable(value)}
    methods = [node for node in owner.body if isinstance(node, ast.FunctionDef)]
    stored = {
        ast.unparse(node) for node in ast.walk(owner) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    is_plugin = owner.name in instantiated and any("hookimpl" in _decorators(method) for method in methods)
    for method in methods:
        first = _first(method)
        of_class = "classmethod" in _decorators(method) or method.name in ("__new__", "__init_subclass__")
        roots = {f"type({first})", *([first] if of_class or (is_plugin and method.name != "__init__") else [])}
        objects = {f"{first}.{name}" for name in shared} - stored
        for node in ast.walk(method):
            for changed in _changed(node):
                if isinstance(node, ast.expr) and (_root(changed) in roots or ast.unparse(changed) in objects):
                    yield node, owner.name


def _is_mutable(value: ast.AST | None) -> bool:
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in MUTABLE
    return isinstance(value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))


@functools.cache
def writes() -> tuple[Write, ...]:
    return tuple(module_state(core() | plugins()))


def test_no_module_has_state() -> None:
    allowed = OUTLIVES_AN_EXPORT.keys() | OF_OTHERS.keys()
    found = [write for write in writes() if (write.module, write.name) not in allowed]
    assert not found, "\n".join(map(str, found))


def test_each_exception_is_still_needed() -> None:
    assert {(write.module, write.name) for write in writes()} == OUTLIVES_AN_EXPORT.keys() | OF_OTHERS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "x = 0\ndef f():\n    global x\n    x = 1",
        "x = {}\ndef f():\n    x['key'] = 1",
        "x: list[int] = []\ndef f():\n    x.append(1)",
        "x = set()\nclass C:\n    def f(self):\n        x.add(self)",
        "x = [[]]\ndef f():\n    x[0].append(1)",
        "x = {}\nf = lambda: x.update(a=1)",
        "x = {}\ndef f():\n    del x[0]",
        "x = []\ndef f():\n    y = x\n    y.append(1)",
        "x = itertools.count()\ndef f():\n    return next(x)",
        "if True:\n    x = []\ndef f():\n    x[:] = [1]",
        "def f():\n    globals()['x'] = 1",
        "def f():\n    f.calls = 1",
        "x = threading.local()\ndef f():\n    x.depth = 1",
        "x = threading.local()\ndef f():\n    vars(x)['depth'] = 1",
        "x = threading.local()\ndef f():\n    setattr(x, 'depth', 1)",
        "x = C()\ndef f():\n    object.__setattr__(x, 'depth', 1)",
        "x = ContextVar('x')\ndef f():\n    x.set(1)",
        "@functools.cache\ndef g():\n    return []\ndef f():\n    g().append(1)",
        "@functools.cache\ndef g():\n    return {}\ndef f():\n    found = g()\n    found['key'] = 1",
        "@functools.lru_cache(maxsize=2)\ndef f(n: int) -> torch.Tensor:\n    return torch.ones(n)",
        "from onnxexp.other import x\ndef f():\n    x['key'] = 1",
        "from onnxexp import other\ndef f():\n    other.x = 1",
        "import onnxexp.other as other\ndef f():\n    other.x.append(1)",
        "import torch\ndef f():\n    torch.x = 1",
        "import torch\ndef f():\n    torch.x = 1\n    try:\n        yield\n    finally:\n        print(torch.x)",
        "class C:\n    def up(self):\n        self.n += 1\nx = C()\ndef f():\n    x.up()",
        "class C:\n    def __call__(self):\n        self.n += 1\nx = C()\ndef f():\n    x()",
        "class C:\n    @hookimpl\n    def post_pass(self):\n        self.n = 1\nx = C()",
        "class C:\n    n = 0\n    @classmethod\n    def f(cls):\n        cls.n = 1",
        "class C:\n    n = 0\n    def f(self):\n        C.n = 1",
        "class C:\n    n = 0\n    def f(self):\n        type(self).n = 1",
        "class C:\n    n = 0\n    def f(self):\n        self.__class__.n = 1",
        "class C:\n    found = {}\n    def f(self):\n        self.found['key'] = 1",
        "class C:\n    found = []\n    def f(self):\n        self.found.append(1)",
    ],
)
def test_the_check_finds_state(source: str) -> None:
    assert list(module_state({"a.py": source, "other.py": ""}))


@pytest.mark.parametrize(
    "source",
    [
        "x = {}\nx['key'] = 1\ndef f():\n    return x['key']",
        "x = []\ndef f(x):\n    x.append(1)\ndef g():\n    x = []\n    x.append(1)",
        "x = []\ndef f():\n    y = list(x)\n    y.append(1)",
        "@functools.cache\ndef f():\n    return 1",
        "x = ContextVar('x')\ndef f():\n    token = x.set(1)\n    try:\n        yield\n    finally:\n        x.reset(token)",
        "from onnxexp import other\ndef f():\n    other.insert(1)",
        "import torch\ndef f():\n    torch.x = 1\n    try:\n        yield\n    finally:\n        torch.x = 0",
        "class C:\n    found: list[int] = field(default_factory=list)\n    def f(self):\n        self.found.append(1)",
        "class C:\n    found = []\n    def f(self):\n        self.found = []\n        self.found.append(1)",
        "class C:\n    @hookimpl\n    def post_pass(self):\n        self.n = 1\ndef f():\n    C()",
        "class C:\n    def __new__(cls):\n        made = super().__new__(cls)\n        made.n = 1\n        return made",
    ],
)
def test_the_check_leaves_the_rest_alone(source: str) -> None:
    assert not list(module_state({"a.py": source, "other.py": ""}))
