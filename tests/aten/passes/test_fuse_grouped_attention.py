"""passes/fuse_attention.py: key and value heads are shared, not copied."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

import onnxexp

torch.manual_seed(0)
Q, K, V = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
MASK = torch.ones(2, 1, 3, 5, dtype=torch.bool)
MASK[1, 0, 1] = False  # a row without any key gives 0


def repeated(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(x.shape[0], 4, x.shape[2], 8)


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attention(q, repeated(k), repeated(v))


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return attention(q, repeated(k), repeated(v), mask).transpose(1, 2).flatten(2)


def used_twice(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values = repeated(v)
    return attention(q, repeated(k), values), values.tanh()


def by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    weights = (q @ repeated(k).transpose(2, 3)).softmax(-1)
    return weights @ repeated(v), weights


AXES = {"q": {0: "batch", 2: "queries"}, "k": {0: "batch", 2: "keys"}, "v": {0: "batch", 2: "keys"}}


def exported(fn: object, opset: int, *more: torch.Tensor, **options: object) -> onnxexp.ONNXProgram:
    axes = {**AXES, "mask": {0: "batch", 2: "queries", 3: "keys"}} if more else AXES
    program = onnxexp.export(fn, (Q, K, V, *more), opset_version=opset, dynamic_axes=axes, debug=True, **options)
    assert program.verify().ok
    return program


def operators(program: onnxexp.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("opset", [13, 20, 23])
@pytest.mark.parametrize(("fn", "more"), [(grouped, ()), (masked, (MASK,))])
def test_heads_are_not_repeated(fn: object, more: tuple[torch.Tensor, ...], opset: int) -> None:
    program = exported(fn, opset, *more)
    assert "Expand" not in operators(program)
    q, k, v = torch.randn(3, 4, 6, 8), torch.randn(3, 2, 7, 8), torch.randn(3, 2, 7, 8)
    others = (torch.rand(3, 1, 6, 7) > 0.3,) if more else ()
    torch.testing.assert_close(program(q, k, v, *others), fn(q, k, v, *others), rtol=1e-4, atol=1e-5)  # type: ignore[operator]


@pytest.mark.parametrize("opset", [20, 23])
def test_copies_that_something_else_reads_stay_for_it(opset: int) -> None:
    assert operators(exported(used_twice, opset)).count("Expand") == 1


def test_weights_that_are_an_output_keep_their_heads() -> None:
    assert operators(exported(by_hand, 20)).count("Expand") == 2


def test_skipped_pass_leaves_the_copies() -> None:
    assert operators(exported(grouped, 20, skip_passes=["fuse-grouped-attention"])).count("Expand") == 2
