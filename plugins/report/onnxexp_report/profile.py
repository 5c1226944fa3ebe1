"""The time that each operator takes in ONNX Runtime."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from onnxexp import ONNXProgram
from onnxexp.checking import Session
from onnxexp.commands import temporary_folder

_RUNS = 5


def profiled(program: ONNXProgram) -> dict[str, Any]:
    """Run the program on its example, and sum the kernels' times.

    Returns milliseconds per run: ``operators``, a list of [operator, milliseconds, calls], longest first, and ``nodes``, by
    the name of the ONNX node. Nodes that ONNX Runtime fused have names of its own.
    """
    with temporary_folder() as folder:

        def prepare(model: Any, options: Any) -> Any:
            options.enable_profiling = True
            options.profile_file_prefix = str(Path(folder) / "profile")
            return program.prepare(model, options)

        session = Session(program.model, prepare)
        leaves = program.signature.flatten(*program.example)
        feeds = {**program.weights, **program.signature.feeds(leaves)}
        for _ in range(_RUNS + 1):
            session.run(feeds)
        del session  # which completes the file
        (file,) = Path(folder).glob("profile*.json")
        events = json.loads(file.read_text("utf-8"))
    return _summed([event for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")])


def _summed(events: list[dict[str, Any]]) -> dict[str, Any]:
    events = events[len(events) // (_RUNS + 1) :]  # the first run warms up
    nodes: dict[str, float] = defaultdict(float)
    operators: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    for event in events:
        spent = event["dur"] / 1000 / _RUNS
        nodes[event["name"].removesuffix("_kernel_time")] += spent
        entry = operators[event["args"].get("op_name", "?")]
        entry[0] += spent
        entry[1] += 1 / _RUNS
    ordered = sorted(operators.items(), key=lambda item: -item[1][0])
    return {"operators": [[name, time, round(calls)] for name, (time, calls) in ordered], "nodes": dict(nodes)}
