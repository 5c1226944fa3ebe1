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
"""Measured runs; one more before them warms up."""


def measure_operator_times(program: ONNXProgram) -> dict[str, Any]:
    """Run the program on its example under ONNX Runtime's profiler, and sum the times.

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
    return _sum_by_operator([event for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")])


def _sum_by_operator(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum the times of kernels by operator and by node, without the first run."""
    node_times: dict[str, float] = defaultdict(float)
    operator_times: dict[str, float] = defaultdict(float)
    operator_calls: dict[str, float] = defaultdict(float)
    for event in events[len(events) // (_RUNS + 1) :]:
        milliseconds = event["dur"] / 1000 / _RUNS
        operator = event["args"].get("op_name", "?")
        node_times[event["name"].removesuffix("_kernel_time")] += milliseconds
        operator_times[operator] += milliseconds
        operator_calls[operator] += 1 / _RUNS
    longest_first = sorted(operator_times.items(), key=lambda item: -item[1])
    operators = [[name, time, round(operator_calls[name])] for name, time in longest_first]
    return {"operators": operators, "nodes": dict(node_times)}
