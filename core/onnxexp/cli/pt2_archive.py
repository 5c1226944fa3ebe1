"""Programs that `torch.export.save` wrote, loaded without running code from the file.

`torch.export.load` trusts its file. In torch 2.13 the file may run code through:

- pickles: tensors marked ``use_pickle``, "opaque" objects, the example inputs and the weights of older files (where
  ``weights_only`` fails, torch tries again without);
- TorchBind objects, which a C++ unpickler makes, and compiled libraries (``data/aotinductor``), which are opened;
- sizes, which `sympy.sympify` evaluates as Python; guards, which are compiled when the program becomes a module;
- names of nodes and inputs, which torch writes into the Python source of the graph as they are;
- operators as arguments, looked up by name from torch on (``torch.os.system``), which a higher-order operator may call;
- tree specs, which import the modules of enums and of a defaultdict's factory.

So the file is checked first, read by the same reader: names must be names, sizes arithmetic, operators operators. Pickles load
with ``weights_only``, which torch enforces by a variable of its environment. Everything not known to be harmless is refused.
Targets of nodes are left to torch, whose own verifier refuses a function that is no operator.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, is_zipfile

from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram, load
from torch.export.pt2_archive import constants
from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2

from onnxexp.errors import OptionError

__all__ = ["load_archive"]

_MODEL = "model"
_UNREADABLE = (
    RuntimeError, ValueError, LookupError, TypeError, AttributeError, AssertionError, BadZipFile, SpecViolationError,
)  # fmt: skip
"""What torch raises for a file that is no program of its own."""
_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_FORCED_PICKLE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"

_NAME = re.compile(r"[A-Za-z0-9_.@+-]*")
_OPERATOR = re.compile(
    r"torch\.ops(\.(?!__)\w+){2,3}|torch\.(_sym|sym)_\w+|math\.(?!__)\w+|"
    r"_operator\.(abs|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|xor|not_|lshift|rshift|getitem)"
)
_PATH_KEYS = {"fqn", "parameter_name", "buffer_name", "tensor_constant_name"}
_PATH = re.compile(r"[A-Za-z0-9_.@+ /:#-]*")
"""Paths of parameters: torch quotes what is no identifier in them, but does not escape quotes."""
_FREE_KEYS = {"as_string", "as_strings", "metadata", "torch_version", "guards_code"}
"""Texts that are only shown, or that torch quotes. Guards are code; they are dropped, an export does not use them."""
_FACTORIES = {"list", "dict", "set", "tuple", "int", "float", "str"}
_SYMBOL = re.compile(r"[A-Za-z_]\w*|[+-]?\d+(\.\d*)?(e[+-]?\d+)?")
"""What stands in quotes in `sympy.srepr`: the name of a symbol, the digits of a float. sympify may evaluate it again."""
_SYMPY = {
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "floor", "ceiling", "Eq",
    "Ne", "Lt", "Le", "Gt", "Ge", "Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan",
    "GreaterThan", "And", "Or", "Not", "Piecewise", "ExprCondPair", "Tuple", "FloorDiv", "ModularIndexing", "Where",
    "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow",
    "FloatTrueDiv", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt", "RoundToInt",
    "RoundDecimal", "ToFloat", "Identity",
}  # fmt: skip
_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Load, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.keyword,
)  # fmt: skip


class _Suspicious(Exception):
    """Something in a file that is not known to be harmless."""


def load_archive(path: Path, *, trusted: bool = False) -> ExportedProgram:
    """The program in a .pt2 file.

    Args:
        path: The file.
        trusted: Load it as torch does, whatever it runs.

    Raises:
        OptionError: there is no such file, it holds no program, or (not `trusted`) loading it might run code from it.
    """
    if not path.is_file():
        raise OptionError(f"there is no file {path}")
    try:
        if trusted:
            return load(path)
        with _weights_only():
            _check(str(path))
            program = load_pt2(str(path)).exported_programs[_MODEL]
    except _Suspicious as suspicion:
        raise _refused(path, str(suspicion)) from None
    except pickle.UnpicklingError as error:
        reason = str(error).strip().partition("\n")[0]
        raise _refused(path, f"it holds a pickle of more than tensors ({reason})") from error
    except (
        RuntimeError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
        BadZipFile,
        SpecViolationError,
    ) as error:
        if not trusted and _of_an_older_torch(path):
            raise _refused(path, "its format is that of an older torch, all pickles") from error
        reason = str(error).strip().partition("\n")[0]
        raise OptionError(
            f"{path} holds no program that this version of torch can load: {type(error).__name__}: {reason}"
        ) from error
    vars(program)["_guards_code"] = []  # torch would compile them when it makes a module of the program
    return program


def _of_an_older_torch(path: Path) -> bool:
    """What torch wrote up to 2.7: pickles side by side."""
    if not is_zipfile(path):
        return False
    with ZipFile(path) as archive:
        return "serialized_exported_program.json" in archive.namelist()


def _refused(path: Path, reason: str) -> OptionError:
    return OptionError(
        f"{path} is not loaded, because that might run code from the file: {reason}. If you trust the file as you trust a "
        "program, give --allow-pickle"
    )


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    """Inside, `torch.load` makes tensors and plain containers only, even where torch itself asks for more."""
    before = {name: os.environ.pop(name, None) for name in (_WEIGHTS_ONLY, _FORCED_PICKLE)}
    os.environ[_WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _check(path: str) -> None:
    """Raises _Suspicious."""
    with PT2ArchiveReader(path) as reader:
        names = reader.get_file_names()
        compiled = [name for name in names if name.startswith(constants.AOTINDUCTOR_DIR)]
        if compiled:
            raise _Suspicious(f"it holds a compiled library ({compiled[0]})")
        for name in names:
            if name.startswith(constants.MODELS_DIR):
                _check_values(json.loads(reader.read_bytes(name)), "")
            elif name.startswith(constants.CONSTANTS_DIR) and name.endswith(".json"):
                _check_constants(json.loads(reader.read_bytes(name)))


def _check_constants(config: Any) -> None:
    for name, payload in config["config"].items():
        if not str(payload["path_name"]).startswith(constants.TENSOR_CONSTANT_FILENAME_PREFIX):
            raise _Suspicious(f"the constant {name!r} is a pickled object")


def _check_values(value: Any, key: str) -> None:
    """Every text of a model's JSON; `key` says what it is."""
    if key in _FREE_KEYS:
        return
    if isinstance(value, dict):
        for name, child in value.items():
            _check_name(name)
            _check_values(child, name)
    elif isinstance(value, list):
        for child in value:
            _check_values(child, key)
    elif isinstance(value, str):
        _check_text(value, key)


def _check_text(text: str, key: str) -> None:
    if key == "as_operator":
        if not _OPERATOR.fullmatch(text):
            raise _Suspicious(f"it passes {text[:100]!r}, which is no operator")
    elif key == "expr_str":
        _check_size(text)
    elif key in ("in_spec", "out_spec"):
        _check_tree(json.loads(text)[1], arguments=key == "in_spec")
    else:
        _check_name(text, _PATH if key in _PATH_KEYS else _NAME)


def _check_name(text: str, allowed: re.Pattern[str] = _NAME) -> None:
    if not allowed.fullmatch(text):
        raise _Suspicious(f"{text[:100]!r} stands where a name should")


def _check_size(text: str) -> None:
    """An expression of symbols and numbers, as sympy prints it."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _Suspicious(f"{text[:100]!r} stands where a size should") from None
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SYMPY
        constant = isinstance(node, ast.Constant) and (
            isinstance(node.value, (int, float)) or (isinstance(node.value, str) and _SYMBOL.fullmatch(node.value))
        )
        if not (called or constant or isinstance(node, _ARITHMETIC)):
            raise _Suspicious(f"{text[:100]!r} stands where a size should")


def _check_tree(spec: Any, *, arguments: bool) -> None:
    """A tree spec: nothing in it may import a module, and the names of arguments become source."""
    children = spec["children_spec"]
    if arguments and len(children) == 2 and children[1]["type"] == "builtins.dict":
        for name in json.loads(children[1]["context"]):
            _check_name(str(name))
    context = spec["context"]
    _check_context(json.loads(context) if isinstance(context, str) and context[:1] in '[{"' else context)
    for child in children:
        _check_tree(child, arguments=False)


def _check_context(context: Any) -> None:
    if isinstance(context, dict):
        module = context.get("default_factory_module")
        plain = module is None or (module == "builtins" and context.get("default_factory_name") in _FACTORIES)
        if "__enum__" in context or not plain:
            raise _Suspicious("the structure of its inputs or outputs names a module to import")
    for child in context.values() if isinstance(context, dict) else context if isinstance(context, list) else ():
        _check_context(child)
