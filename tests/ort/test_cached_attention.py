"""onnxexp_ort/cached_attention.py: GroupQueryAttention for a single query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

import onnxexp
from tests.ort.llama import AXES, compare, inputs, llama, operators

ATTENTION = "com.microsoft::GroupQueryAttention"
SIZES = [(1, 4, 0), (3, 5, 0), (1, 1, 1), (1, 1, 9), (3, 1, 7), (2, 3, 4), (4, 9, 13), (1, 17, 31)]
"""Batch, queries and past: prefill, decoding, and several queries after a past."""


@pytest.fixture(scope="module", params=[14, 20])
def exported(request: pytest.FixtureRequest) -> tuple[onnxexp.ONNXProgram, Any]:
    model = llama()
    options = {"opset_version": request.param, "target": "onnxruntime-contrib", "debug": True}
    return onnxexp.export(model, inputs(2, 3, 4), dynamic_shapes=AXES, **options), model


def test_every_layer_has_it_and_returns_its_presents(exported: Any) -> None:
    program, _ = exported
    found = operators(program)
    assert found[ATTENTION] == found["If"] == 2
    assert {output.producer().op_type for output in program.model.graph.outputs[1:]} == {"If"}
    assert "Softmax" not in [node.op_type for node in program.model.graph]  # the composition is in the branches
    assert "Concat" not in [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("padded", [False, True])
def test_values_are_those_of_eager(exported: Any, size: tuple[int, int, int], padded: bool) -> None:
    compare(*exported, inputs(*size, padded=padded))


def test_a_batch_of_zero_is_empty(exported: Any) -> None:
    program, _ = exported
    assert program(*inputs(0, 1, 4))[0].shape == (0, 1, 50)


def test_halves() -> None:
    model = llama().half()
    given = inputs(2, 3, 4, dtype=torch.float16)
    program = onnxexp.export(model, given, dynamic_shapes=AXES, target="onnxruntime-contrib")
    assert operators(program)[ATTENTION] == 2
    compare(program, model, inputs(3, 1, 5, padded=True, dtype=torch.float16), 2e-2)


def test_one_query_needs_no_choice() -> None:
    model = llama()
    cache = {2: "past"}
    axes = (None, {1: "total"}, ((cache, cache),) * 2)
    program = onnxexp.export(model, inputs(2, 1, 4), dynamic_shapes=axes, target="onnxruntime-contrib", debug=True)
    assert (operators(program)[ATTENTION], operators(program)["If"], operators(program)["Softmax"]) == (2, 0, 0)
    compare(program, model, inputs(2, 1, 9, padded=True))


def test_nothing_changes_without_the_target() -> None:
    found = operators(onnxexp.export(llama(), inputs(2, 3, 4), dynamic_shapes=AXES))
    assert not [name for name in found if "::" in name]


def test_own_attention_of_newer_opsets_stays() -> None:
    model = llama()
    program = onnxexp.export(model, inputs(2, 3, 4), dynamic_shapes=AXES, opset_version=23, target="onnxruntime-contrib")
    assert (operators(program)["Attention"], operators(program)[ATTENTION]) == (2, 0)
    compare(program, model, inputs(3, 1, 7, padded=True))


# One attention

Q, K, V = torch.randn(2, 4, 1, 16), torch.randn(2, 2, 1, 16), torch.randn(2, 2, 1, 16)
PAST = torch.randn(2, 2, 5, 16), torch.randn(2, 2, 5, 16)
MASK = torch.tensor([[True] * 6, [False] * 6])[:, None, None]


def joined(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: Any, mask: torch.Tensor | None = None, **options: Any) -> Any:
    keys, values = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
    return attention(q, keys, values, mask, enable_gqa=True, **options), keys, values


FITTING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "plain": (joined, ()),
    "scaled": (lambda *args: joined(*args, scale=0.3), ()),
    "padded row": (joined, (MASK,)),
    "bias": (joined, (torch.randn(2, 1, 1, 6).masked_fill(~MASK, -torch.inf),)),
    "presents are read, too": (lambda *args: (*joined(*args), torch.cat((args[3][0], args[1]), 2).sum()), ()),
    "presents are not returned": (lambda *args: joined(*args)[0], ()),
}
OTHERS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "causal": (lambda *args: joined(*args, is_causal=True), ()),
    "scaled by zero": (lambda *args: joined(*args, scale=0.0), ()),
    "bias by head": (joined, (torch.randn(2, 4, 1, 6),)),
    "mask of two axes": (joined, (MASK[:1, 0, 0][None, 0],)),
    "doubles": (lambda *args: joined(*(x.double() for x in args[:3]), [x.double() for x in args[3]]), ()),
    "no past": (lambda q, k, v, past: attention(q, *past, enable_gqa=True) + k.sum() + v.sum(), ()),
    "other order": (lambda q, k, v, past: joined(q, past[0], past[1], (k, v)), ()),
    "narrow heads": (lambda *args: joined(*(x[..., :12] for x in args[:3]), [x[..., :12] for x in args[3]]), ()),
    "other width of values": (lambda q, k, v, past: joined(q, k, v[..., :8], (past[0], past[1][..., :8])), ()),
    "several queries": (lambda q, *args: joined(q.expand(-1, -1, 3, -1), *args), ()),
}


@pytest.mark.parametrize("name", FITTING)
def test_what_fits(name: str) -> None:
    fn, more = FITTING[name]
    program = onnxexp.export(fn, (Q, K, V, PAST, *more), target="onnxruntime-contrib", debug=True)
    assert operators(program)[ATTENTION] == 1
    assert program.verify().ok


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_fit_stays_composed(name: str) -> None:
    fn, more = OTHERS[name]
    program = onnxexp.export(fn, (Q, K, V, PAST, *more), target="onnxruntime-contrib", debug=True)
    assert operators(program)[ATTENTION] == 0
    assert program.verify().ok


def test_attention_in_a_branch() -> None:
    def chosen(*args: Any) -> Any:
        return torch.cond(args[0].sum() > 0, lambda *x: joined(*x[:3], x[3:]), lambda *x: joined(x[0] + 1, *x[1:3], x[3:]), args)

    given = Q, K, V, *PAST
    axes = ({0: "batch", 2: "length"},) * 3 + ({0: "batch", 2: "past"},) * 2
    program = onnxexp.export(chosen, given, dynamic_shapes=(axes,), target="onnxruntime-contrib", debug=True)
    for sign in (1, -1):
        args = sign * Q.abs(), *given[1:]
        torch.testing.assert_close(program(*args), chosen(*args), rtol=1e-4, atol=1e-5)
