"""Compare exports in fresh processes with those of a process that exported much.

Each case is exported through each frontend alone, in a child of a process that has imported the packages and exported nothing.
It is exported once more in a process that exports all cases, in random order. Both must give the same bytes, or the same error.

python -m tests.fresh tests/aten/rnn/test_layers.py tests/aten/statistics/test_sorting.py
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import json
import random
import re
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import onnxexp
from onnxexp.testing._case import Case, cases_of

from .children import in_child, preload

_NUMBERS = re.compile(r"0x[0-9a-f]+|___torch_mangle_\d+\.|(?<=<eval_with_key>)\.\d+|proxy_tensor\.py:\d+")
"""What differs between any two errors of torch: addresses, and names with the count of earlier programs."""

FRONTENDS = ("export", "strict", "trace", "script")


def main(argv: list[str] | None = None) -> int:
    options = _arguments(argv)
    torch.set_num_threads(1)
    pairs = [(each, frontend) for each in _cases(options.modules) for frontend in options.frontends]
    preload()
    fresh = [in_child(outcome, case, frontend) for (_, case), frontend in pairs]
    used = in_child(_in_one_process, pairs, options.seed)
    differing = [
        {"case": name, "frontend": frontend, "fresh": one, "used": other}
        for ((name, _), frontend), one, other in zip(pairs, fresh, used, strict=True)
        if one != other
    ]
    exported = sum(each.startswith("file ") for each in fresh)
    print(json.dumps({"exports": len(pairs), "files": exported, "differing": differing}, indent=1))
    return int(bool(differing))


def outcome(case: Case, frontend: str) -> str:
    """Export a case at its highest opset; return a digest of the file, or the error."""
    torch.manual_seed(0)
    opset = min(max(case.opsets), 25)
    arguments = case.arguments(opset, dynamic=case.dynamic is not None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = _export(case.model(), arguments, frontend)
    except Exception as error:  # noqa: BLE001 - the comparison is of errors too
        return f"{type(error).__name__}: {_NUMBERS.sub('', str(error))}"
    return f"file {hashlib.sha256(program.model_proto.SerializeToString(deterministic=True)).hexdigest()}"


def _export(model: torch.nn.Module, arguments: dict[str, Any], frontend: str) -> onnxexp.ONNXProgram:
    if frontend != "strict":
        return onnxexp.export(model, **arguments, capture=frontend)
    original = torch.export.export
    torch.export.export = functools.partial(_strict, original)
    try:
        return onnxexp.export(model, **arguments, capture="export")
    finally:
        torch.export.export = original


def _strict(original: Any, *args: Any, **options: Any) -> Any:
    return original(*args, **{**options, "strict": True})


def _in_one_process(pairs: list[Any], seed: int) -> list[str]:
    order = list(range(len(pairs)))
    random.Random(seed).shuffle(order)
    found = dict.fromkeys(order, "")
    for index in order:
        (_, case), frontend = pairs[index]
        found[index] = outcome(case, frontend)
    return [found[index] for index in range(len(pairs))]


def _cases(modules: list[Path]) -> list[tuple[str, Case]]:
    return [(f"{path.stem}: {case.name}", case) for path in modules for case in cases_of(_module(path))]


@functools.cache
def _module(path: Path) -> types.ModuleType:
    return importlib.import_module(".".join(path.with_suffix("").parts))


def modules_with_cases(folder: Path) -> Iterator[Path]:
    """Find the test modules of a folder and its sub-folders that have cases."""
    return (path for path in sorted(folder.rglob("test_*.py")) if "@cases(" in path.read_text("utf-8"))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.fresh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("modules", nargs="+", type=Path, help="test modules, as paths relative to the repository")
    parser.add_argument("--frontends", nargs="+", choices=FRONTENDS, default=list(FRONTENDS))
    parser.add_argument("--seed", type=int, default=0, help="the order of the exports in one process")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
