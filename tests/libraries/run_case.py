"""Run one case with one exporter, and print the result as JSON lines.

``python -m tests.libraries.run_case "timm: davit_tiny" onnxexp``. The first line is the result of the export; each step that
people run on the file afterwards adds one, so that a step that never ends loses no others.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from torch.utils import _pytree as pytree

from tests.libraries.case import Case, Cases, Exported, LibraryModel

EXPORTERS = {"entry point": ("onnxexp", "torch.onnx"), "model": ("onnxexp", "dynamo=True", "dynamo=False")}
TIMED = (
    "ultralytics: yolo11n, dynamic and simplified",
    "anomalib: Padim.to_onnx",
    "python-doctr: a CRNN",
    "lightning: to_onnx by Dynamo",
)
"""The functions that torch's newer exporter also serves, whichever the library chooses, to compare the times."""

TABLES = ("entry_points", "training_entry_points", "models", "speech_cases", "generative_models")
"""The modules with tables of cases."""


def cases() -> list[Case]:
    """List all cases: those of each table in a module of this package."""
    modules = [importlib.import_module(f"tests.libraries.{name}") for name in TABLES]
    return [case for module in modules for table in vars(module).values() if isinstance(table, Cases) for case in table.all]


def run(case: Case, exporter: str, folder: Path) -> Exported:
    """Export a case into a folder."""
    torch.manual_seed(0)
    if case.kind == "entry point":
        with installed(exporter == "onnxexp"), by_dynamo(exporter == "dynamo=True"):
            made: Exported = case.make(folder)
        return made
    model: LibraryModel = case.make()
    file, original = folder / "model.onnx", copy.deepcopy(model.module)  # an export may leave fake tensors in the model
    _EXPORT[exporter](model, file)
    return Exported(file, original, [model.example, *model.calls], model.tolerance)


@contextlib.contextmanager
def installed(wanted: bool) -> Iterator[None]:
    """Put onnxexp in torch.onnx's place, if wanted."""
    if not wanted:
        yield
        return
    import onnxexp_torch_onnx

    with onnxexp_torch_onnx.installed():
        yield


@contextlib.contextmanager
def by_dynamo(wanted: bool) -> Iterator[None]:
    """Let torch.onnx.export call torch's newer exporter, if wanted."""
    own: Any = torch.onnx.export
    if wanted:
        torch.onnx.export = lambda *args, **options: own(*args, **{**options, "dynamo": True})
    try:
        yield
    finally:
        torch.onnx.export = own


def _by_onnxexp(model: LibraryModel, file: Path) -> None:
    import onnxexp

    onnxexp.export(model.module, model.example, file, dynamic_shapes=model.axes)


def _by_dynamo(model: LibraryModel, file: Path) -> None:
    names = {name for axes in model.axes for name in axes.values()}
    dims = dict.fromkeys(names, torch.export.Dim.DYNAMIC)
    shapes = tuple({axis: dims[name] for axis, name in axes.items()} for axes in model.axes)
    torch.onnx.export(model.module, model.example, file, dynamo=True, dynamic_shapes=shapes, external_data=False)


def _by_torchscript(model: LibraryModel, file: Path) -> None:
    names = [f"input_{index}" for index in range(len(model.example))]
    axes = dict(zip(names, model.axes, strict=True))
    torch.onnx.export(model.module, model.example, file, dynamo=False, input_names=names, dynamic_axes=axes)


_EXPORT: dict[str, Callable[[LibraryModel, Path], None]] = {
    "onnxexp": _by_onnxexp, "dynamo=True": _by_dynamo, "dynamo=False": _by_torchscript,
}  # fmt: skip


def difference(exported: Exported) -> str:
    """Describe the first difference between the file and eager, else ""."""
    session = onnxruntime.InferenceSession(str(exported.file), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    for call in exported.calls:
        shapes = [list(leaf.shape) for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor)]
        with torch.no_grad():
            wanted = [_array(leaf) for leaf in pytree.tree_leaves(exported.eager(*call)) if leaf is not None]
        given = [_array(leaf) for leaf in pytree.tree_leaves(call) if leaf is not None]
        found: Sequence[Any] = session.run(None, dict(zip(names, given, strict=False)))
        problem = _first_difference(wanted, found, exported.tolerance)
        if problem:
            return f"at {shapes}: {problem}"
    return ""


def _array(leaf: Any) -> Any:
    return leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)


def _first_difference(wanted: Sequence[Any], found: Sequence[Any], tolerance: float) -> str:
    if len(wanted) > len(found):
        return f"{len(found)} outputs in place of {len(wanted)}"
    for number, (one, other) in enumerate(zip(wanted, found, strict=False)):
        if one.shape != other.shape:
            return f"output {number} has the shape {other.shape} in place of {one.shape}"
        if not np.allclose(one, other, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(one).max(initial=0)))):
            return f"output {number} differs by {np.abs(one.astype(float) - other).max():.3g}"
    return ""


def checked(file: Path) -> None:
    """Check the file with onnx's checker."""
    onnx.checker.check_model(str(file), full_check=True)


def slimmed(file: Path) -> None:
    """Shrink the file with onnxslim."""
    import onnxslim

    onnxslim.slim(str(file), str(file.with_suffix(".slim.onnx")))


def simplified(file: Path) -> None:
    """Shrink the file with onnxsim."""
    import onnxsim

    if not onnxsim.simplify(str(file))[1]:
        raise ValueError("onnxsim's own check fails")


def quantized(file: Path) -> None:
    """Quantize the weights with ONNX Runtime's tool, and load the result."""
    from onnxruntime.quantization import quantize_dynamic

    made = file.with_suffix(".quantized.onnx")
    quantize_dynamic(str(file), str(made))
    onnxruntime.InferenceSession(str(made), providers=["CPUExecutionProvider"])


def opened(file: Path) -> None:
    """Open the file in Netron, which runs in Node.js."""
    netron, script = importlib.util.find_spec("netron"), Path(__file__).with_name("open_in_netron.mjs")
    assert netron is not None and netron.origin is not None
    command = ["node", str(script), str(Path(netron.origin).parent), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout)
    if found["problems"] or not found["nodes"]:
        raise ValueError(f"Netron finds {found['nodes']} nodes, {'; '.join(found['problems'])}")


STEPS = {"checker": checked, "onnxslim": slimmed, "onnxsim": simplified, "quantize_dynamic": quantized}
if shutil.which("node"):
    STEPS["Netron"] = opened
"""What people run on a file, by name."""


def _outcome(case: Case, exporter: str, folder: Path) -> dict[str, Any]:
    begin = time.perf_counter()
    try:
        exported = run(case, exporter, folder)
    except Exception as error:  # noqa: BLE001 - the library's or the exporter's: it is the result
        return {"status": "not exported", "detail": f"{type(error).__name__}: {error}"[:600]}
    seconds = time.perf_counter() - begin
    try:
        problem = difference(exported)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's, or the original's
        problem = f"{type(error).__name__}: {error}"[:600]
        return {"status": "does not run", "detail": problem, "file": str(exported.file)}
    model = onnx.load(str(exported.file), load_external_data=False)
    opset = next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    facts = {"nodes": len(model.graph.node), "opset": opset, "seconds": round(seconds, 1), "file": str(exported.file)}
    return {"status": "differs" if problem else "right", "detail": problem, **facts}


def main(name: str, exporter: str) -> None:
    """Run the case of this name."""
    case = next(each for each in cases() if str(each) == name)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        outcome = _outcome(case, exporter, Path(place))
        file = outcome.pop("file", None)
        print(json.dumps(outcome), file=output, flush=True)
        for step, function in STEPS.items() if outcome["status"] == "right" else ():
            try:
                function(Path(file))
                result = "ok"
            except Exception as error:  # noqa: BLE001 - the tool's: it is the result
                result = f"{type(error).__name__}: {error}"[:300]
            print(json.dumps({"step": step, "result": result}), file=output, flush=True)


def listing() -> str:
    """Return all cases as JSON."""
    keys = ("kind", "library", "name", "limit")
    exporters = {case: (*EXPORTERS[case.kind], *(["dynamo=True"] if str(case) in TIMED else ())) for case in cases()}
    return json.dumps([{key: vars(case)[key] for key in keys} | {"exporters": names} for case, names in exporters.items()])


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(listing())
    else:
        main(*sys.argv[1:])
