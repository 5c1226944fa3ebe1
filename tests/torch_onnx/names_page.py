"""docs/reference/torch-onnx-names.md: what becomes of each public name of torch.onnx in onnxexp_torch_onnx.

``python -m tests.torch_onnx.names_page`` writes it.
"""

from __future__ import annotations

import fnmatch
import importlib
import inspect
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from tests.torch_onnx.public_names import Row, rows

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "torch-onnx-names.md"
MISSING = object()
ABSENT = {
    "symbolic_caffe2*": "Caffe2 is gone, and with it the runtime of these operators",
    "symbolic_opset*.prim_*": "the capture resolves such nodes before a symbolic runs",
    "symbolic_opset*.onnx_placeholder": "the capture resolves such nodes before a symbolic runs",
    "symbolic_opset9.*_complex_operators": "a list from which torch registers symbolics of its own",
    "symbolic_opset[78].block_listed_operators": "a list from which torch registers symbolics of its own",
    "verification.GraphInfoPrettyPrinter*": "`GraphInfo.tree_text()` and `mismatch_text()` return the texts",
    "verification.OnnxTestCaseRepro*": "`GraphInfo.export_repro()` writes a script that runs by itself",
    "verification.check_export_model_diff": "`program.verify_sizes()` compares results, where this compares nodes",
    "verification.verify_aten_graph": "takes a graph between two of torch's passes; `find_mismatch` takes the model",
    "utils.disable_apex_o2_state_dict_hook": "serves the mode O2 of NVIDIA's Apex, which is no longer developed",
    "utils.warn_on_static_input_change": "compares what torch's tracer was given before and after",
    "ONNXRuntimeOptions": "`program.initialize_inference_session(initializer)` takes a function that makes the session",
}
"""Names without a counterpart, with the reason or the replacement."""
_OF_OUTPUT = "the result of `dynamo_export` is an `ExportOutput`, which has it"
DIFFERENT = {
    "ONNXProgram.adapt_torch_inputs_to_onnx": _OF_OUTPUT,
    "ONNXProgram.adapt_torch_outputs_to_onnx": _OF_OUTPUT,
    "ONNXProgram.diagnostic_context": _OF_OUTPUT,
    "ONNXProgram.fake_context": _OF_OUTPUT,
    "ONNXProgram.save_diagnostics": _OF_OUTPUT,
    "ONNXProgram.save | model_state": "`ExportOutput.save` takes it as `model_state_dict`",
    "InputObserver": "torch's own, so it is there from torch 2.13 on",
    "ops": "torch's own functions; an export lowers their operators",
}
"""Names that differ: a pattern, and a parameter where only that one differs."""
_START = """# Every public name of torch.onnx

What becomes of the public names of torch.onnx {releases} in `onnxexp_torch_onnx`. A name is public if no
part of it starts with an underscore, and if its module lists it in `__all__` or has no such list. "Same" is a name that is there
with the same parameters; [what differs](../how-to/moving-from-torch-onnx.md#what-differs-and-why) in general applies to all.

`python -m tests.torch_onnx.names_page` writes this page, and fails for a name that is neither there nor explained.
`tests/torch_onnx/test_public_names.py` compares the list of names with the sources of the installed torch.

| names | same | different | absent |
|---|---|---|---|
{counts}
"""
_MODULES = {
    "": "The module itself",
    "symbolic_helper": "`symbolic_helper`. The names that start with an underscore, which symbolics use too, are there as well",
    "symbolic_opset": (
        "`symbolic_opset7` to `symbolic_opset20`. A function here lowers its operator as the running export does; it takes "
        "its arguments by position"
    ),
}
"""The title of each part that is not its module's name."""


def found(name: str) -> Any:
    """Return the object of a public name, or `MISSING`."""
    head, *rest = name.split(".")
    package = importlib.import_module("onnxexp_torch_onnx")
    try:
        here = getattr(package, head)
        for part in rest:
            here = getattr(here, part)
    except (AttributeError, KeyError):
        return MISSING
    return here


def missing_parameters(here: Any, row: Row) -> list[str]:
    """List the parameters that a function lacks."""
    if not row.parameters or not inspect.isroutine(here):
        return []
    own = inspect.signature(here).parameters.values()
    open_ended = {
        inspect.Parameter.VAR_KEYWORD,
        *([inspect.Parameter.VAR_POSITIONAL] if row.name.startswith("symbolic_") else []),
    }
    if any(each.kind in open_ended for each in own):
        return []
    names = {each.name for each in own}
    return [name for name in row.parameters if name not in names]


def outcome(row: Row) -> tuple[str, str]:
    """Return "same", "different" or "absent", and how or why.

    Raises LookupError for a name that is not there without a reason, and for a reason without need.
    """
    name, here = row.name, found(row.name)
    how = next((text for key, text in DIFFERENT.items() if name == key), None)
    why = next((text for pattern, text in ABSENT.items() if fnmatch.fnmatch(name, pattern)), None)
    if here is MISSING:
        if how is None and why is None:
            raise LookupError(f"{name} is not there, and nothing says why")
        return ("different", how) if how is not None else ("absent", why or "")
    if why is not None:
        raise LookupError(f"{name} is there, and {why!r} is listed as the reason why not")
    lacking = missing_parameters(here, row)
    notes = [DIFFERENT.get(f"{name} | {parameter}") for parameter in lacking]
    if None in notes:
        raise LookupError(f"{name} lacks {lacking}, and nothing says why")
    texts = [text for text in (how, *notes) if text]
    return ("different", "; ".join(texts)) if texts else ("same", "")


def part(row: Row) -> str:
    """Return the module of a name; all modules of symbolics are one part."""
    head = row.name.partition(".")[0]
    if head.startswith("symbolic_opset"):
        return "symbolic_opset"
    return head if "." in row.name and head.islower() else ""


def page() -> str:
    """Return the page's text."""
    known = sorted(rows(), key=lambda row: (part(row), row.name))
    groups = {title: list(group) for title, group in groupby(known, part)}
    releases = sorted({release for row in known for release in row.releases}, key=lambda text: [int(n) for n in text.split(".")])
    counts = "\n".join(_count(_MODULES.get(title, f"`{title}`"), group) for title, group in groups.items())
    start = _START.format(releases=", ".join(releases), counts=counts)
    return start + "".join(_section(title, group, releases) for title, group in groups.items())


def _count(title: str, group: list[Row]) -> str:
    kinds = [outcome(row)[0] for row in group]
    return f"| {title.partition('.')[0]} | {' | '.join(str(kinds.count(kind)) for kind in ('same', 'different', 'absent'))} |"


def _section(title: str, group: list[Row], releases: list[str]) -> str:
    outcomes = {row: outcome(row) for row in group}
    heading = _MODULES.get(title, f"`{title}`")
    lines = ["", f"## {heading.partition('.')[0]}", "", *([heading.partition(". ")[2] + ".", ""] if ". " in heading else [])]
    for where, text in _same(outcomes, releases):
        lines += [f"Same{where}: {text}.", ""]
    others = [(row, kind, text) for row, (kind, text) in outcomes.items() if kind != "same"]
    if others:
        lines += ["| name | releases | here | how, or why |", "|---|---|---|---|"]
        for (kind, where, text), alike in groupby(sorted(others, key=_of_one_line), _of_one_line):
            names = ", ".join(f"`{row.name}`" for row, _, _ in alike)
            lines.append(f"| {names} | {', '.join(where)} | {kind} | {text} |")
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def _of_one_line(entry: tuple[Row, str, str]) -> tuple[str, tuple[str, ...], str]:
    row, kind, text = entry
    return kind, row.releases, text


def _same(outcomes: dict[Row, tuple[str, str]], releases: list[str]) -> Iterator[tuple[str, str]]:
    """Iterate over the names that are the same, by the releases that have them."""
    by_name: dict[str, set[str]] = {}
    for row, (kind, _) in outcomes.items():
        if kind == "same":
            by_name.setdefault(row.name, set()).update(row.releases)
    sets: Callable[[str], list[bool]] = lambda name: [release not in by_name[name] for release in releases]  # noqa: E731
    for missing, names in groupby(sorted(by_name, key=lambda name: (sets(name), name)), sets):
        where = [release for release, absent in zip(releases, missing, strict=True) if not absent]
        yield "" if len(where) == len(releases) else f" in {', '.join(where)}", ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(f"torch {torch.__version__}")
    PAGE.write_text(page(), "utf-8")
