"""The page docs/reference/transformers.md."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
import transformers

from .architecture import Architecture
from .exporters import OPSET, Result

WORDS = {"pass": "passes", "fixed": "fixes a size", "wrong": "wrong", "error": "error", "time": "time"}


def page(rows: Sequence[Architecture], results: Mapping[tuple[str, str], Result]) -> str:
    """Return the text of the page."""
    ours, theirs = (_count(rows, results, exporter) for exporter in ("onnxexp", "dynamo"))
    names = len({row.name for row in rows})
    return f"""# Architectures of transformers

Each row is an architecture of Hugging Face transformers {transformers.__version__} and a task, from a small configuration with
random weights. Its parts (an encoder, a decoder with its cache, a vision tower) are exported at opset {OPSET} with dynamic axes,
and compared with eager PyTorch in ONNX Runtime: on the example, and at two other sizes of batch, text, image or sound. "Passes"
means that all outputs of all parts agree. torch.onnx {torch.__version__} (`dynamo=True`) exports the same parts with the same
axes, and is compared in the same way.

Of {len(rows)} rows ({names} architectures), onnxexp passes {ours}; torch.onnx passes {theirs}.

`make transformers` measures this, and writes this page. onnxexp-plugin-transformers has no table of
architectures: one that is not here is exported by the same rules, and is not tested.

| architecture | task | opset | frontend | onnxexp | torch.onnx |
|---|---|---:|---|---|---|
{"".join(_row(row, results) for row in sorted(rows, key=lambda row: row.id.lower()))}
## Why not

{"".join(_reasons(rows, results))}"""


def _count(rows: Sequence[Architecture], results: Mapping[tuple[str, str], Result], exporter: str) -> str:
    found = [each for row in rows if (each := results.get((row.id, exporter))) is not None]
    passed = sum(each.status == "pass" for each in found)
    if not found:
        return "none, since it was not run"
    return f"{passed}" if len(found) == len(rows) else f"{passed} of the {len(found)} that it was run on"


def _row(row: Architecture, results: Mapping[tuple[str, str], Result]) -> str:
    ours, theirs = results.get((row.id, "onnxexp")), results.get((row.id, "dynamo"))
    words = [WORDS[each.status] if each else "not run" for each in (ours, theirs)]
    return f"| {row.name} | {row.task} | {OPSET} | {ours.frontend if ours else ''} | {words[0]} | {words[1]} |\n"


def _reasons(rows: Sequence[Architecture], results: Mapping[tuple[str, str], Result]) -> list[str]:
    lines = []
    for exporter, title in (("onnxexp", "onnxexp"), ("dynamo", "torch.onnx")):
        failed = [each for row in rows if (each := results.get((row.id, exporter))) is not None and each.status != "pass"]
        lines += [f"### {title}\n\n", *(f"- {each.row.replace(':', ', ')}: {_plain(each.message)}\n" for each in failed), "\n"]
    return lines


def _plain(message: str) -> str:
    """Return a message as code, without paths of this machine."""
    text = re.sub(r"(/[\w.\-]+)+/site-packages/", "", message)
    return f"`{text.replace('`', chr(39))}`"
