"""Calls of ONNX operators that take sequences, optionals, strings or graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from onnxexp import Builder, Tensor
from onnxexp._neutral_graph import TensorType

Program = Callable[[Builder], Any]


def x(op: Builder, *sizes: int | str, dtype: torch.dtype = torch.float32) -> Tensor:
    return op.input("x", TensorType(dtype, sizes or (2, 3)))


def pair(op: Builder) -> Tensor:
    return op.SequenceConstruct(x(op), x(op))


def words(op: Builder) -> Tensor:
    return op.Constant(value_strings=["a b", "c"])


def if_(op: Builder) -> Any:
    data = x(op)
    return op.if_(x(op, 1, dtype=torch.bool), lambda: [op.Relu(data), data], lambda: [op.Neg(data), op.constant([[1.0]])])


def if_of_other_shapes(op: Builder) -> Any:
    data = x(op)
    return op.if_(op.ReduceMax(data, keepdims=0), lambda: [data], lambda: [op.Concat(data, data, axis=0)])


def if_of_sequences(op: Builder) -> Any:
    data = x(op)
    (chosen,) = op.if_(
        x(op, 1, dtype=torch.bool), lambda: [op.SequenceConstruct(data)], lambda: [op.SequenceConstruct(data, data)]
    )
    return op.SequenceLength(chosen)


def loop(op: Builder) -> Any:
    data = x(op)
    return op.loop(3, None, lambda i, total: (None, [op.Add(total, data)], [op.Mul(total, op.cast(i, torch.float32))]), [data])


def loop_until(op: Builder) -> Any:
    def body(i: Tensor, total: Tensor) -> Any:
        total = op.Add(total, 1)
        return op.Less(op.ReduceMax(total, keepdims=0), 10), [total], []

    return op.loop(None, True, body, [x(op)])


def loop_that_grows(op: Builder) -> Any:
    types = [TensorType(torch.float32, ("n", 3))]
    return op.loop(
        x(op, 1, dtype=torch.int64), None, lambda i, rows: (None, [op.Concat(rows, rows, axis=0)], []), [x(op)], types=types
    )


def loop_over_a_sequence(op: Builder) -> Any:
    data = x(op)
    start = op.SequenceEmpty(dtype=torch.float32)
    (found,) = op.loop(
        4, None, lambda i, found: (None, [op.SequenceInsert(found, op.Mul(data, op.cast(i, torch.float32)))], []), [start]
    )
    return op.ConcatFromSequence(found, axis=0)


def nested(op: Builder) -> Any:
    data = x(op)

    def body(i: Tensor, total: Tensor) -> Any:
        (step,) = op.if_(
            op.Less(i, 2),
            lambda: [op.Add(total, data)],
            lambda: op.loop(2, None, lambda j, t: (None, [op.Mul(t, 2)], []), [total]),
        )
        return None, [step], [step]

    return op.loop(3, None, body, [data])


def sequence_map(op: Builder) -> Any:
    """Map a sequence by a graph without inferred types; only the length is checked."""
    value = ir.Value(name="in", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2, 3]))
    node = ir.node("Neg", [value])
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = "out", value.type, value.shape
    body = ir.Graph([value], node.outputs, nodes=[node], name="body")
    return op.SequenceLength(op.SequenceMap(pair(op), body=body, outputs=1)[0])


def scan(op: Builder) -> Any:
    return op.scan(lambda total, row: ([op.Add(total, row)], [op.Mul(total, row)]), [x(op, 3)], [x(op, 5, 3)])


def scan_backwards(op: Builder) -> Any:
    return op.scan(lambda total, row: ([op.Add(total, row)], [total]), [x(op, 3)], [x(op, "time", 3)], reverse=True)


PROGRAMS: dict[str, list[Program]] = {
    "If": [if_, if_of_other_shapes, if_of_sequences, nested],
    "Loop": [loop, loop_until, loop_that_grows, loop_over_a_sequence],
    "SequenceMap": [sequence_map],
    "Scan": [scan, scan_backwards],
    "SequenceConstruct": [lambda op: op.SequenceConstruct(x(op), op.constant([1.0])), pair],
    "SequenceEmpty": [
        lambda op: op.SequenceEmpty(),
        lambda op: op.SequenceEmpty(dtype=torch.int64),
        lambda op: op.SequenceInsert(op.SequenceEmpty(dtype=torch.int64), x(op, dtype=torch.int64)),
    ],
    "SequenceAt": [lambda op: op.SequenceAt(pair(op), 0), lambda op: op.Relu(op.SequenceAt(pair(op), x(op, dtype=torch.int32)))],
    "SequenceErase": [lambda op: op.SequenceErase(pair(op)), lambda op: op.SequenceErase(pair(op), -1)],
    "SequenceInsert": [lambda op: op.SequenceInsert(pair(op), x(op)), lambda op: op.SequenceInsert(pair(op), x(op), 0)],
    "SequenceLength": [lambda op: op.Add(op.SequenceLength(pair(op)), 1)],
    "ConcatFromSequence": [
        lambda op: op.ConcatFromSequence(pair(op), axis=0),
        lambda op: op.ConcatFromSequence(pair(op), axis=1, new_axis=1),
    ],
    "SplitToSequence": [
        lambda op: op.SplitToSequence(x(op), axis=1),
        lambda op: op.SplitToSequence(x(op), [1, 2], axis=1),
        lambda op: op.SplitToSequence(x(op), keepdims=0),
        lambda op: op.SequenceAt(op.SplitToSequence(x(op, dtype=torch.int64), 1), 0),
    ],
    "Optional": [
        lambda op: op.Optional(type=ir.TypeAndShape(ir.TensorType(ir.DataType.FLOAT), ir.Shape([2]))),
        lambda op: op.Optional(x(op)),
        lambda op: op.Optional(pair(op)),
    ],
    "OptionalGetElement": [
        lambda op: op.Relu(op.OptionalGetElement(op.Optional(x(op)))),
        lambda op: op.SequenceAt(op.OptionalGetElement(op.Optional(pair(op))), 0),
        lambda op: op.OptionalGetElement(x(op)),
    ],
    "OptionalHasElement": [
        lambda op: op.OptionalHasElement(op.Optional(x(op))),
        lambda op: op.OptionalHasElement(x(op)),
        lambda op: op.OptionalHasElement(),
    ],
    "StringConcat": [lambda op: op.StringConcat(words(op), words(op))],
    "StringNormalizer": [lambda op: op.StringNormalizer(words(op), case_change_action="UPPER", stopwords=["c"])],
    "StringSplit": [lambda op: op.StringSplit(words(op), delimiter=" ")],
    "RegexFullMatch": [lambda op: op.RegexFullMatch(words(op), pattern="a.*")],
}
