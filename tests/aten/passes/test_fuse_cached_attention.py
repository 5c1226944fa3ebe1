"""passes/fuse_attention.py: Attention extends the key-value cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

import onnxexp

torch.manual_seed(0)
Q, K, V = torch.randn(2, 3, 32), torch.randn(2, 3, 16), torch.randn(2, 3, 16)
PAST = torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)
MASK = torch.rand(2, 1, 3, 8) > 0.3
Fn = Callable[..., Any]


def heads(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.unflatten(2, (count, 8)).transpose(1, 2)


def joined(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any, mask: torch.Tensor | None = None) -> Any:
    keys, values = torch.cat((past[0], heads(k, 2)), 2), torch.cat((past[1], heads(v, 2)), 2)
    result = attention(heads(q, 4), keys, values, mask, enable_gqa=True)
    return result.transpose(1, 2).flatten(2), keys, values


def unmasked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any) -> Any:
    return joined(q, k, v, past)


def kept(*args: Any) -> Any:
    return joined(*args)[0]


def read_before(*args: Any) -> Any:
    result, keys, values = joined(*args)
    return result, keys, values, keys.sum()


def one_cache(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any, mask: torch.Tensor) -> Any:
    keys = torch.cat((past[0], heads(k, 2)), 2)
    return attention(heads(q, 4), keys, torch.cat((heads(v, 2), past[1]), 2), mask, enable_gqa=True), keys


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any, mask: torch.Tensor) -> Any:
    keys, values = torch.cat((past[0], heads(k, 2)), 2), torch.cat((past[1], heads(v, 2)), 2)
    return attention(heads(q, 4), keys, values, is_causal=True, enable_gqa=True), keys, values, mask


ROWS = {0: "batch", 1: "queries"}
CACHE = {0: "batch", 2: "past"}
AXES = ROWS, ROWS, ROWS, (CACHE, CACHE), {0: "batch", 2: "queries", 3: "keys"}


def exported(fn: Fn, *args: Any, opset: int = 23) -> onnxexp.ONNXProgram:
    program = onnxexp.export(fn, args, opset_version=opset, dynamic_shapes=AXES[: len(args)], debug=True)
    assert program.verify().ok
    return program


def attentions(program: onnxexp.ONNXProgram) -> list[int]:
    """Count the outputs of each Attention."""
    return [len(node.outputs) for node in program.model.graph if node.op_type == "Attention"]


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize(("fn", "more"), [(unmasked, ()), (joined, (MASK,))])
def test_the_cache_is_extended_by_attention(fn: Fn, more: tuple[torch.Tensor, ...], opset: int) -> None:
    program = exported(fn, Q, K, V, PAST, *more, opset=opset)
    names = {node.op_type for node in program.model.graph}
    assert attentions(program) == [3]
    assert names.isdisjoint({"Concat", "Transpose"})
    for batch, length, before in ((1, 1, 1), (3, 1, 6), (3, 4, 0), (2, 5, 9)):
        q, k, v = torch.randn(batch, length, 32), torch.randn(batch, length, 16), torch.randn(batch, length, 16)
        past = torch.randn(batch, 2, before, 8), torch.randn(batch, 2, before, 8)
        masks = (torch.rand(batch, 1, length, before + length) > 0.4,) if more else ()
        torch.testing.assert_close(program(q, k, v, past, *masks), fn(q, k, v, past, *masks), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fn", [kept, read_before, one_cache, causal])
def test_other_uses_of_the_cache_keep_its_concat(fn: Fn) -> None:
    program = exported(fn, Q, K, V, PAST, MASK)
    assert 3 not in attentions(program)


def test_earlier_opsets_have_the_composition() -> None:
    assert not attentions(exported(joined, Q, K, V, PAST, MASK, opset=22))
