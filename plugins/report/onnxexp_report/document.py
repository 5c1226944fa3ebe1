"""The document that the page shows.

Both graphs, their link, weights, times and errors, as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

import onnxexp
from onnxexp import ONNXProgram
from onnxexp.checking import NodeOrigin, type_text
from onnxexp.graph import Graph, Node, Value


def document(
    program: ONNXProgram,
    *,
    mismatch: Any = None,
    profile: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
    problems: Sequence[str] = (),
) -> dict[str, Any]:
    """Describe a program.

    Args:
        program: The program.
        mismatch: The result of `ONNXProgram.find_mismatch`, for the errors.
        profile: The result of `measure_operator_times`, for the times.
        warnings: The warnings of the export.
        problems: Why operators could not be lowered.
    """
    onnx = _OnnxGraph(program.model)
    graph = program.record.graph if program.record is not None else None
    kept = {id(node) for node, by in program.lowered if by == "torch"} if problems else set()
    captured = _captured(graph, onnx, mismatch, kept) if graph is not None else []
    return {
        "title": program.model.graph.doc_string or _title(program),
        "summary": _summary(program, onnx),
        "nodes": onnx.nodes,
        "values": onnx.values,
        "inputs": [onnx.index[value] for value in program.model.graph.inputs],
        "outputs": [onnx.index[value] for value in program.model.graph.outputs],
        "captured": captured,
        "weights": weight_rows(onnx.weights),
        "warnings": list(warnings),
        "problems": list(problems),
        "timings": [[name, seconds] for name, seconds in program.timings.items()],
        "passes": [[name, seconds] for name, seconds in program.pass_timings.items()],
        "profile": profile,
        "mismatch": _mismatch(mismatch),
    }


def _title(program: ONNXProgram) -> str:
    scopes = [node.where.module for node, _ in program.lowered if node.where.module and not node.where.scope]
    return scopes[0] if scopes else "An exported model"


def _summary(program: ONNXProgram, onnx: _OnnxGraph) -> dict[str, Any]:
    model = program.model
    return {
        "onnxexp": onnxexp.__version__,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opset_imports.items()},
        "plugins": [[each.distribution or each.name, each.version] for each in program.plugins],
        "inputs": [[value.name, type_text(value)] for value in model.graph.inputs],
        "outputs": [[value.name, type_text(value)] for value in model.graph.outputs],
        "metadata": {name: text for name, text in model.metadata_props.items() if name != "onnxexp.plugins"},
        "nodes": len(onnx.nodes),
        "parameters": sum(value.const_value.size for value in onnx.weights if value.const_value is not None),
        "bytes": sum(value.const_value.nbytes for value in onnx.weights if value.const_value is not None),
    }


class _OnnxGraph:
    """The ONNX graph as rows.

    Nodes of blocks come after the node that they belong to, inside its path.

    Attributes:
        nodes, values: The rows.
        index: The row of each value.
        rows: The rows of the nodes, by the name of each result.
        weights: The initializers.
    """

    def __init__(self, model: ir.Model) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.values: list[dict[str, Any]] = []
        self.index: dict[ir.Value, int] = {}
        self.weights: list[ir.Value] = []
        self._graph(model.graph, "")
        for function in model.functions.values():
            self._nodes(function, f"function {function.domain}.{function.name}")
        self.rows = {self.values[value]["n"]: row for row, node in enumerate(self.nodes) for value in node["u"]}

    def _graph(self, graph: ir.Graph, path: str) -> None:
        for value in graph.inputs:
            self._value(value)
        self._nodes(graph, path)
        for value in graph.outputs:
            self._value(value)

    def _nodes(self, nodes: Any, path: str) -> None:
        for node in nodes:
            origin = NodeOrigin.of(node) or NodeOrigin()
            scope = "/".join(part for part in (path, origin.scope.replace(".", "/")) if part)
            row = {
                "n": node.name or "", "o": node.op_type, "s": scope,
                "i": [-1 if value is None else self._value(value) for value in node.inputs],
                "u": [self._value(value) for value in node.outputs],
            }  # fmt: skip
            attributes = {name: _attribute(attr) for name, attr in node.attributes.items() if not _is_block(attr)}
            named = {
                "d": node.domain, "a": attributes, "t": origin.op, "k": origin.node, "m": origin.module, "l": origin.source,
                "p": origin.plugin, "y": origin.symbolic, "b": origin.made_by,
            }  # fmt: skip
            self.nodes.append({**row, **{key: text for key, text in named.items() if text}})
            for name, attr in node.attributes.items():
                for block in _blocks(attr):
                    self._graph(block, "/".join(part for part in (scope, f"{node.op_type} {name}") if part))

    def _value(self, value: ir.Value) -> int:
        if value not in self.index:
            self.index[value] = len(self.values)
            row: dict[str, Any] = {"n": value.name or "", "t": type_text(value)}
            if value.const_value is not None and value.producer() is None:
                row["w"] = len(self.weights)
                self.weights.append(value)
            self.values.append(row)
        return self.index[value]


def _is_block(attr: ir.Attr) -> bool:
    return attr.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def _blocks(attr: ir.Attr) -> Iterator[ir.Graph]:
    if attr.type is ir.AttributeType.GRAPH:
        yield attr.as_graph()
    elif attr.type is ir.AttributeType.GRAPHS:
        yield from attr.as_graphs()


def _attribute(attr: ir.Attr) -> str:
    if attr.is_ref():
        return f"@{attr.ref_attr_name}"
    value = attr.value
    if attr.type is ir.AttributeType.TENSOR:
        return str(value.numpy().tolist()) if value.size <= 8 else f"{value.dtype.name.lower()}{list(value.shape)}"
    text = str(list(value) if isinstance(value, (list, tuple)) else value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _captured(graph: Graph, onnx: _OnnxGraph, mismatch: Any, kept: set[int]) -> list[dict[str, Any]]:
    """Return the captured graph as rows, each with the rows of its ONNX nodes."""
    made: dict[str, list[int]] = {}
    for row, node in enumerate(onnx.nodes):
        made.setdefault(node.get("k", ""), []).append(row)
    results = {id(each.node): each for each in mismatch.nodes} if mismatch is not None else {}
    rows: list[dict[str, Any]] = []
    producers: dict[Value, int] = {}
    for node, path in _walk(graph, ""):
        name = node.outputs[0].name if node.outputs else node.op
        scope = "/".join(part for part in (path, node.where.scope.replace(".", "/")) if part)
        counterparts = made.get(name, []) or [onnx.rows[value.name] for value in node.outputs if value.name in onnx.rows]
        row: dict[str, Any] = {
            "n": name, "o": node.op, "s": scope, "x": counterparts,
            "i": sorted({producers[value] for value in node.inputs() if value in producers}),
            "r": [f"%{value.name}: {value.type}" for value in node.outputs],
            "c": repr(node)[:400],
        }  # fmt: skip
        where = node.where
        row |= {"f": where.file, "l": where.line, "z": where.code} if where.file else {}
        rows.append({**row, **({"st": "unsupported"} if id(node) in kept else _error(results.get(id(node))))})
        producers.update(dict.fromkeys(node.outputs, len(rows) - 1))
    return rows


def _walk(graph: Graph, path: str) -> Iterator[tuple[Node, str]]:
    for node in graph.nodes:
        yield node, path
        for index, block in enumerate(node.blocks):
            scope = node.where.scope.replace(".", "/")
            yield from _walk(block, "/".join(part for part in (path, scope, f"{node.op} block {index}") if part))


def _error(report: Any) -> dict[str, Any]:
    """Return a node's errors.

    Its status, the error of it alone, the error so far, and the difference in words.
    """
    if report is None:
        return {}
    found: dict[str, Any] = {"st": report.status}
    for key, comparison in (("le", report.local), ("te", report.total)):
        if comparison is not None:
            found[key] = _finite(comparison.max_abs)
    if report.local is not None and report.local.problem:
        found["pr"] = report.local.problem
    return found | ({"nt": report.note} if report.note else {})


def _mismatch(mismatch: Any) -> dict[str, Any] | None:
    if mismatch is None:
        return None
    first = mismatch.first
    return {
        "ok": mismatch.ok,
        "text": str(mismatch),
        "first": None if first is None else mismatch.faults[0].name,
        "origin": None if mismatch.origin is None else mismatch.origin.what,
    }


def _finite(number: float) -> float:
    """JSON has no infinity."""
    return number if math.isfinite(number) else 1e308


_BINS = 24
_SAMPLE = 1 << 16
"""Elements of a tensor that are looked at; larger ones are read at even distances."""


def weight_rows(values: Sequence[ir.Value]) -> list[dict[str, Any]]:
    """One row for each initializer.

    Name, dtype, shape, bytes, and the statistics of its numbers.
    """
    return [_row(value) for value in values]


def _row(value: ir.Value) -> dict[str, Any]:
    tensor = value.const_value
    assert tensor is not None
    row = {"n": value.name, "d": type_text(tensor.dtype), "s": list(tensor.shape.numpy()), "b": tensor.nbytes}
    return {**row, **_statistics(tensor)}


def _statistics(tensor: ir.TensorProtocol) -> dict[str, Any]:
    if tensor.dtype == ir.DataType.STRING or tensor.size == 0:
        return {}
    sample = _sample(tensor.numpy()).astype(np.float64).reshape(-1)
    finite = sample[np.isfinite(sample)]
    if finite.size == 0:
        return {"nan": int(sample.size)}
    low, high = float(finite.min()), float(finite.max())
    bins = ((finite - low) / ((high - low) or 1.0) * _BINS).clip(0, _BINS - 1).astype(np.int64)
    counts = np.bincount(bins, minlength=_BINS)
    return {
        "lo": low, "hi": high, "mu": float(finite.mean()), "sd": float(finite.std()),
        "h": counts.tolist(), "nan": int(sample.size - finite.size),
    }  # fmt: skip


def _sample(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a part of a large array, at even distances along its longest axes.

    It is a view, so that nothing large is copied.
    """
    while array.size > _SAMPLE:
        longest = int(np.argmax(array.shape))
        step = max(2, min(array.size // _SAMPLE, array.shape[longest] // 16))
        array = array[tuple(slice(None, None, step if axis == longest else 1) for axis in range(array.ndim))]
    return array
