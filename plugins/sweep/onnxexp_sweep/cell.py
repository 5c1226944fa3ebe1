"""One cell: load, export, write, check and verify a model in this process."""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxexp
from onnxexp import OptionError, VerificationError

_TEXT = 4000
"""The longest text of a reason."""
_QUIET = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning)


class Record:
    """What is known about a running cell, in a file that its supervisor reads.

    The file is replaced after each change, so that a crash leaves the last complete state.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.values: dict[str, Any] = {"step": "load", "stages": {}}

    def update(self, **values: Any) -> None:
        """Add values, and write the file."""
        self.values.update(values)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.values, default=str), "utf-8")
        os.replace(temporary, self._path)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step under its name."""
        self.update(step=name)
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.values[f"{name}_seconds"] = time.perf_counter() - begin


def run(job: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Run a cell; `record` gets its status.

    Args:
        job: What `onnxexp_sweep.cell_list.Cell.job` returns.
        folder: An empty folder for the model's files.
        record: Its `status` becomes "ok"; "differs" where the verification finds differences; "failed" or "memory" where a step
            raises, with the reason.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            _steps(job, folder, record)
            outcome = {"status": "ok"}
        except VerificationError as error:
            outcome = {"status": "differs", "reason": _reason(error)}
        except MemoryError as error:
            outcome = {"status": "memory", "reason": f"Python is out of memory: {error}"}
        except Exception as error:  # noqa: BLE001 - the model's code and the plugins may raise anything; the row has it
            traceback.print_exc()
            outcome = {"status": "failed", "kind": type(error).__name__, "reason": _reason(error)}
    remarks = dict.fromkeys(str(each.message).strip()[:_TEXT] for each in caught if not issubclass(each.category, _QUIET))
    record.update(warnings=list(remarks), **outcome)


def _steps(job: Mapping[str, Any], folder: Path, record: Record) -> None:
    programs = _exported(job, record)
    record.values["nodes"] = sum(len(program.model.graph) for program in programs.values())
    record.values["stages"] = {
        f"{name}: {stage}" if len(programs) > 1 else stage: seconds
        for name, program in programs.items()
        for stage, seconds in program.timings.items()
    }
    with record.step("write"):
        saved = {name: program.save(folder / f"{name}.onnx") for name, program in programs.items()}
        record.values["file_bytes"] = sum(each.bytes for each in saved.values())
    with record.step("check"):
        import onnx

        for name in programs:
            onnx.checker.check_model(str(folder / f"{name}.onnx"), full_check=True)
    if job["verify"] or job["sizes"]:
        with record.step("verify"):
            reports = [report for program in programs.values() for report in _reports(program, job)]
        record.values["max_error"] = max(report.max_abs for report in reports)
        record.values["verified"] = [each.inputs or "the example" for report in reports for each in report.cases or (report,)]
        record.values["not_verified"] = [text for report in reports for text in report.skipped]


def _exported(job: Mapping[str, Any], record: Record) -> dict[str, onnxexp.ONNXProgram]:
    """Export a model; return the program of each of its graphs by name."""
    options = {name: _with_axes(value) if name.startswith("dynamic_") else value for name, value in job["options"].items()}
    options |= {"opset_version": job["opset"], "capture": job["frontend"]}
    if job["target"].startswith("hf:"):
        with record.step("load"):
            export = _transformers()
        with record.step("export"):
            source = job["target"].removeprefix("hf:")
            programs: dict[str, onnxexp.ONNXProgram] = dict(
                export(source, job["task"], task_options=job["task_options"], **options).programs
            )
        return programs
    with record.step("load"):
        from onnxexp.commands import Target

        target = Target.load(job["target"])
    with record.step("export"):
        own = {name: value for name, value in target.options.items() if name not in ("verify", "f")}
        if "dynamic_shapes" in options:
            own.pop("dynamic_axes", None)
        return {"model": onnxexp.export(target.model, target.args, kwargs=target.kwargs, **{**own, **options})}


def _transformers() -> Any:
    try:
        from onnxexp_transformers import export
    except ModuleNotFoundError as error:
        if error.name != "onnxexp_transformers":
            raise
        raise OptionError("a target hf: needs a plugin; to fix this, run pip install onnxexp-plugin-transformers") from None
    return export


def _with_axes(shapes: Any) -> Any:
    """Make axes of the keys that TOML has as texts: ``{x = { 0 = "batch" }}``."""
    if isinstance(shapes, Mapping):
        return {int(key) if str(key).isdigit() else key: _with_axes(value) for key, value in shapes.items()}
    return [_with_axes(each) for each in shapes] if isinstance(shapes, list) else shapes


def _reports(program: onnxexp.ONNXProgram, job: Mapping[str, Any]) -> Iterator[Any]:
    """Compare with the original on the inputs that a job names."""
    program.prepare = _with_threads_of_torch(program.prepare)
    tolerances = {name: job[name] for name in ("rtol", "atol")}
    if job["verify"]:
        yield program.verify(inputs=None if job["verify"] == "example" else job["verify"], **tolerances)
    for sizes in job["sizes"]:
        text = ", ".join(f"{axis} is {size}" for axis, size in sizes.items())
        try:
            args, kwargs = _resized(program, sizes)
            report = program.verify(args, kwargs, **tolerances)
        except VerificationError as error:
            raise VerificationError(f"where {text}: {error}") from error
        yield type(report)(report.outputs, text)


def _with_threads_of_torch(prepare: Callable[..., Any]) -> Callable[..., Any]:
    """Have ONNX Runtime compute with as many threads as torch.

    By default it has one for each core. Cells run side by side, and idle threads wait in a loop for work.
    """
    import torch

    def prepared(model: Any, options: Any) -> Any:
        options.intra_op_num_threads = torch.get_num_threads()
        return prepare(model, options)

    return prepared


def _resized(program: onnxexp.ONNXProgram, sizes: Mapping[str, int]) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Repeat or cut the example's inputs to other sizes of the named axes.

    Axes that are computed from them, such as ``past + sequence``, change too. Raises OptionError where the export has no dynamic
    axis of a name.
    """
    from torch.utils import _pytree as pytree

    from onnxexp.commands import nearest
    from onnxexp.frontends import resize_example
    from onnxexp.graph import SymbolicSize

    flat, structure = pytree.tree_flatten((tuple(program.example[0]), dict(program.example[1])))
    spec = program.spec.axes if program.spec is not None else ()
    axes = [(index, axis, each.name) for index, found in enumerate(spec) for axis, each in found.items() if each.name]
    present = {name: flat[index].shape[axis] for index, axis, name in axes if name.isidentifier()}
    for name in sizes:
        if name not in present:
            listed = ", ".join(sorted(present)) or "none"
            raise OptionError(
                f"sizes names the axis {name!r}{nearest(name, present)}, which is not dynamic; choose from: {listed}"
            )
    for index, axis, name in axes:
        if (size := SymbolicSize(name).at({**present, **sizes})) is not None:
            flat[index] = resize_example(flat[index], axis, size)
    args, kwargs = pytree.tree_unflatten(flat, structure)
    return args, kwargs


def _reason(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    text = text if isinstance(error, onnxexp.OnnxExporterError) else f"{type(error).__name__}: {text}"
    text = text.removesuffix("; --traceback shows where")  # that is an option of other commands; `stderr` has the traceback
    return text if len(text) <= _TEXT else f"{text[:_TEXT]} ..."
