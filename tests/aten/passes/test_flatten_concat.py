"""passes/flatten_concat.py: a Concat of a Concat becomes one node."""

from __future__ import annotations

import torch

import onnxexp


def operators(program: onnxexp.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


def test_concatenations_are_flattened_where_nothing_else_reads_the_inner_one() -> None:
    x = torch.randn(2, 3)
    program = onnxexp.export(lambda x: torch.cat([torch.cat([x, x + 1], 1), x * 2], 1), (x,))
    assert operators(program).count("Concat") == 1
    assert program.verify().ok

    def read_twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner = torch.cat([x, x + 1], 1)
        return torch.cat([inner, x * 2], 1), inner.relu()

    program = onnxexp.export(read_twice, (x,))
    assert operators(program).count("Concat") == 2
    assert program.verify().ok
