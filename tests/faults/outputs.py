"""The outputs of exporters, which can be told apart when they are read again."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import gzip
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnxruntime
import torch

import onnxexp
from onnxexp_report.page import write_page
from onnxexp_sweep import html_page, results
from tests.sweep.rows import cells, rows

from . import folder_kills
from .fault import ONNXEXP, TORCH_ONNX, Fault, Row

TAGS = ("old", "new", "next")
"""What is there before, what an interrupted process writes, and what is written after that."""
PAIR = "a model and its data"
_WIDTH = 96


@dataclasses.dataclass(frozen=True)
class Output:
    """Something that an exporter writes in a whole.

    Attributes:
        write: Write it with one of the tags into a folder.
        read: Return the tag of what is in the folder; raise an exception if it is broken.
    """

    name: str
    write: Callable[[Path, str], None]
    read: Callable[[Path], str]
    exporter: str = ONNXEXP


def broken(output: Output, folder: Path, *tags: str) -> str:
    """Return the problem of a folder's output, unless it has one of these tags."""
    try:
        found = output.read(folder)
    except Exception as error:  # noqa: BLE001 - whatever reading it raises
        return f"{type(error).__name__}: {error}"
    return "" if found in tags else f"it is {found!r}"


@contextlib.contextmanager
def older(output: Output, place: Path) -> Iterator[Path]:
    """Create a folder with an older output."""
    folder = place / "here"
    folder.mkdir()
    output.write(folder, "old")
    yield folder
    shutil.rmtree(folder)


def listed(folder: Path) -> set[str]:
    """Return the paths of all files and folders in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


class _Model(torch.nn.Module):
    """A model whose outputs and structure depend on its tag."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        number = TAGS.index(tag) + 1
        layers = [torch.nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(number)]
        for layer in layers:
            torch.nn.init.constant_(layer.weight, number / _WIDTH)
        self.layers = torch.nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


@functools.cache
def _programs(exporter: str) -> dict[str, Any]:
    """Export all models at once, since a forked child exports none."""
    args = (torch.ones(1, _WIDTH),)
    if exporter == ONNXEXP:
        return {tag: onnxexp.export(_Model(tag).eval(), args) for tag in TAGS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {tag: torch.onnx.export(_Model(tag).eval(), args, dynamo=True, optimize=False, verbose=False) for tag in TAGS}


def export_again() -> None:
    """Forget the exported models; torch.onnx's refer to the files they were saved to."""
    _programs.cache_clear()


def _models(exporter: str, external_data: bool) -> Output:
    def write(folder: Path, tag: str) -> None:
        _programs(exporter)[tag].save(str(folder / "model.onnx"), external_data=external_data)

    return Output(PAIR if external_data else "a model", write, _read_model, exporter)


def _read_model(folder: Path) -> str:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    (output,) = session.run(None, {session.get_inputs()[0].name: torch.ones(1, _WIDTH).numpy()})
    values = {1.0: "old", 4.0: "new", 27.0: "next"}  # the number of layers to its own power
    return values.get(round(float(output[0, 0]), 3), f"a model that returns {output[0, 0]}")


def _write_folder(folder: Path, tag: str) -> None:
    folder_kills.write(folder / "out", tag)
    if tag == "old":
        folder_kills.write_user_files(folder / "out")


def _read_folder(folder: Path) -> str:
    return folder_kills.state(folder / "out")


def _write_report(folder: Path, tag: str) -> None:
    write_page({"title": tag, "noise": base64.b64encode(os.urandom(50_000)).decode()}, folder / "page.html")


def _read_report(folder: Path) -> str:
    (packed,) = re.findall(r'<script id="document"[^>]*>([^<]*)</script>', (folder / "page.html").read_text("utf-8"))
    return str(json.loads(gzip.decompress(base64.b64decode(packed)))["title"])


def _write_results(folder: Path, tag: str) -> None:
    """Append a row, and merge it into the table."""
    with results.Results(folder) as found:
        found.append({**dict.fromkeys(results.SCHEMA.names), "key": tag})


def _read_results(folder: Path) -> str:
    keys = results.read(folder)["key"].to_pylist()
    return max(keys, key=TAGS.index) if "old" in keys and len({*keys}) == len(keys) else f"rows {keys}"


def _write_sweep_page(folder: Path, tag: str) -> None:
    html_page.write(folder / "page.html", tag, [{**row, "finished": None} for row in rows(cells(100))])


def _read_sweep_page(folder: Path) -> str:
    text = (folder / "page.html").read_text("utf-8")
    return re.findall("<title>(.*)</title>", text)[0] if text.endswith("</html>\n") else "cut off"


OUTPUTS = (
    *(_models(exporter, external_data) for external_data in (False, True) for exporter in (ONNXEXP, TORCH_ONNX)),
    Output("a folder", _write_folder, _read_folder),
    Output("a page of a model", _write_report, _read_report),
    Output("the results of a sweep", _write_results, _read_results),
    Output("a page of a sweep", _write_sweep_page, _read_sweep_page),
)


def faults(text: str, cause: Callable[[Output, Row, Path], None]) -> Iterator[Fault]:
    """Generate a fault for each output, of all exporters that write it.

    Args:
        text: The name of the fault, before that of the output.
        cause: Cause the fault for an output.
    """
    found: dict[str, dict[str, Output]] = {}
    for each in OUTPUTS:
        found.setdefault(each.name, {})[each.exporter] = each
    for name, outputs in found.items():
        yield Fault(
            f"{text} {name}", lambda row, place, outputs=outputs: cause(outputs[row.exporter], row, place), tuple(outputs)
        )
