"""Load programs from `torch.export.save` without running code from the file.

`torch.export.load` trusts its file. In torch 2.13 the file may run code through:

- pickles: tensors marked ``use_pickle``, "opaque" objects, the example inputs and the weights of older files (if
  ``weights_only`` fails, torch tries again without it);
- TorchBind objects, created by a C++ unpickler, and compiled libraries (``data/aotinductor``), which are opened;
- sizes, which `sympy.sympify` evaluates as Python; guards, which are compiled when the program becomes a module;
- names of nodes and inputs, which torch writes into the Python source of the graph without escaping;
- operators as arguments, looked up by name from torch on (``torch.os.system``), which a higher-order operator may call;
- tree specs, which import the modules of enums and of a defaultdict's factory.

Therefore the file is checked first, with torch's own reader: names may contain harmless characters only, sizes must be
arithmetic, and operator arguments must be operators. Pickles load with ``weights_only``, enforced by torch's environment
variable. The check refuses everything that is not certainly harmless. Targets of nodes need no check here: torch's own verifier
refuses functions that are no operators.
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
from zipfile import ZIP_STORED, ZipFile

from torch.export import ExportedProgram, load
from torch.export.pt2_archive import constants
from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2

from onnxexp._errors import OptionError
from onnxexp._request.untrusted_files import open_regular

_MODEL = "model"
_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_FORCED_PICKLE = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"

_NAME = re.compile(r"[A-Za-z0-9_.@+-]*")
_OPERATOR = re.compile(
    r"torch\.ops(\.(?!__)\w+){2,3}|torch\.(_sym|sym)_\w+|math\.(?!__)\w+|"
    r"_operator\.(abs|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|xor|not_|lshift|rshift|getitem)"
)
_PATH_KEYS = {"fqn", "parameter_name", "buffer_name", "tensor_constant_name"}
_PATH = re.compile(r"[A-Za-z0-9_.@+ /:#-]*")
"""Paths of parameters: torch quotes non-identifiers in them, but does not escape quotes."""
_FREE_KEYS = {"as_string", "as_strings", "metadata", "torch_version", "guards_code"}
"""Texts that are only shown, or that torch quotes. Guards are code, but an export drops them."""
_FACTORIES = {"list", "dict", "set", "tuple", "int", "float", "str"}
_SYMBOL = re.compile(r"[A-Za-z_]\w*|[+-]?\d+(\.\d*)?(e[+-]?\d{1,3})?")
"""Quoted texts in `sympy.srepr`, which sympify may evaluate: a symbol's name, or the digits of a float."""
_SYMPY = {
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "floor", "ceiling", "Eq",
    "Ne", "Lt", "Le", "Gt", "Ge", "Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan",
    "GreaterThan", "And", "Or", "Not", "Piecewise", "ExprCondPair", "Tuple", "FloorDiv", "ModularIndexing", "Where",
    "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow",
    "FloatTrueDiv", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt", "RoundToInt",
    "RoundDecimal", "ToFloat", "Identity",
}  # fmt: skip
_POWERS = {"Pow", "PowByNatural", "FloatPow", "LShift", "RShift"}
_EXPONENT = re.compile(r"(?:Integer|Float|Rational)?\(?'?-?(\d{1,9})(?:\.\d+)?'?(?:, [\w=]+)*\)?")
_HIGHEST_POWER = 64
_LONGEST_KEYWORD = len("False")
_LONGEST_SIZE = 10_000
_SHOWN = 300
_ARITHMETIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.Load, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.keyword,
)  # fmt: skip


class _Suspicious(Exception):
    """The file contains something that is not known to be harmless."""


def load_archive(path: Path, *, trusted: bool = False) -> ExportedProgram:
    """Load the program in a .pt2 file.

    Args:
        path: The file.
        trusted: Load it with torch's own loader, which may run code from the file.

    Raises:
        OptionError: The file does not exist, contains no program, or (unless `trusted`) might run code.
    """
    open_regular(path).close()
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
        raise _refused(path, f"it contains a pickle of more than tensors ({reason})") from error
    except Exception as error:  # torch's errors for an invalid file have no common class
        if not trusted and _of_an_older_torch(path):
            raise _refused(path, "it has the format of an older torch, which consists of pickles") from error
        reason = str(error).strip().partition("\n")[0]
        raise OptionError(
            f"{path} contains no program that this version of torch can load: {type(error).__name__}: {reason[:_SHOWN]}; "
            "to fix this, save the program again, with torch.export.save"
        ) from error
    vars(program)["_guards_code"] = []  # torch would compile them when it creates a module of the program
    return program


def _of_an_older_torch(path: Path) -> bool:
    """Return whether a file is a zip archive of pickles, as in torch up to 2.7."""
    try:
        with ZipFile(path) as archive:
            return "serialized_exported_program.json" in archive.namelist()
    except Exception:  # noqa: BLE001 - it is no zip archive, or a damaged one, for which zipfile raises many kinds
        return False


def _refused(path: Path, reason: str) -> OptionError:
    return OptionError(
        f"{path} is not loaded, because that might run code from the file: {reason}. If you trust the file like a "
        "program, pass --allow-pickle"
    )


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    """Restrict `torch.load` inside the `with` to tensors and plain containers.

    The restriction also covers torch's own calls.
    """
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
    """Check a file, and raise _Suspicious for anything not known to be harmless."""
    _check_sizes(path)
    with PT2ArchiveReader(path) as reader:
        names = reader.get_file_names()
        compiled = [name for name in names if name.startswith(constants.AOTINDUCTOR_DIR)]
        if compiled:
            raise _Suspicious(f"it contains a compiled library ({compiled[0]})")
        for name in names:
            if name.startswith(constants.MODELS_DIR):
                _check_values(json.loads(reader.read_bytes(name)), "")
            elif name.startswith(constants.CONSTANTS_DIR) and name.endswith(".json"):
                _check_constants(json.loads(reader.read_bytes(name)))


def _check_sizes(path: str) -> None:
    """Check that the records of an archive are together no larger than the file.

    torch stores records without compression, and a compressed one may be a thousand times as large as the file.
    """
    with ZipFile(path) as archive:
        records = archive.infolist()
    if any(record.compress_type != ZIP_STORED for record in records):
        raise _Suspicious("it is compressed, which torch's own files are not")
    if sum(record.file_size for record in records) > os.path.getsize(path):
        raise _Suspicious("its records overlap")
    if len({record.filename for record in records}) < len(records):
        raise _Suspicious("it has two records of one name")


def _check_constants(config: Any) -> None:
    for name, payload in config["config"].items():
        if not str(payload["path_name"]).startswith(constants.TENSOR_CONSTANT_FILENAME_PREFIX):
            raise _Suspicious(f"the constant {name!r} is a pickled object")


def _check_values(value: Any, key: str) -> None:
    """Check every text in a value of a model's JSON, by the value's key."""
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
        raise _Suspicious(f"{text[:100]!r} is not a valid name")


def _check_size(text: str) -> None:
    """Check that a text is an expression of symbols and numbers in sympy's notation."""
    if len(text) > _LONGEST_SIZE:
        raise _Suspicious(f"{text[:100]!r}... is too long for a size")
    try:
        tree = ast.parse(text, mode="eval")
        _check_powers(tree, 1)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _Suspicious(f"{text[:100]!r} is not a valid size") from None
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SYMPY
        constant = isinstance(node, ast.Constant) and (
            isinstance(node.value, (int, float)) or (isinstance(node.value, str) and _SYMBOL.fullmatch(node.value))
        )
        if not (called or constant or isinstance(node, _ARITHMETIC)):
            raise _Suspicious(f"{text[:100]!r} is not a valid size")


def _check_powers(node: ast.AST, power: int) -> None:
    """Check that exponents and precisions are small, since sympy computes 9 ** 9 ** 9."""
    exponent = None
    precise = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Float" and len(node.args) > 1
    if precise or (isinstance(node, ast.keyword) and len(ast.unparse(node.value)) > _LONGEST_KEYWORD):
        raise _Suspicious(f"{ast.unparse(node)[:100]!r} may take too long to compute")
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.LShift, ast.RShift)):
        exponent = node.right
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _POWERS and len(node.args) == 2:
        exponent = node.args[1]
    if exponent is not None:
        number = _EXPONENT.fullmatch(ast.unparse(exponent))
        power *= max(int(number[1]), 1) if number else _HIGHEST_POWER + 1
        if power > _HIGHEST_POWER:
            raise _Suspicious(f"{ast.unparse(node)[:100]!r} may be too large for a size")
    for child in ast.iter_child_nodes(node):
        _check_powers(child, power)


def _check_tree(spec: Any, *, arguments: bool) -> None:
    """Check that a tree spec imports no module and has harmless argument names."""
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
