"""`contiguous()` of a tensor that is contiguous at the example's sizes only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onnxexp
from onnxexp._errors import CaptureError

X = torch.arange(12.0).reshape(4, 3)


def exported(function: Callable[..., Any], *others: Tensor, names: Any = ()) -> onnxexp.ONNXProgram:
    return onnxexp.export(function, (X, *others), capture="export", dynamic_shapes=({1: "n"}, *names))


def write_to_the_source(x: Tensor) -> Tensor:
    part = (x + 0).split(3, -1)[0]
    copy = part.contiguous()
    part.neg_()
    return copy


def write_to_the_copy(x: Tensor) -> Tensor:
    part = (x + 0).split(3, -1)[0]
    copy = part.contiguous(memory_format=torch.contiguous_format)
    copy.neg_()
    return part + copy


def write_to_a_reshape(x: Tensor) -> Tensor:
    part = (x + 0).split(3, -1)[0]
    flat = part.reshape(-1)
    flat.neg_()
    return part


def write_to_a_flat_tensor(x: Tensor) -> Tensor:
    part = (x + 0).split(3, -1)[0]
    part.flatten().neg_()
    return part


def write_to_a_ravel(x: Tensor) -> Tensor:
    part = (x + 0).split(3, -1)[0]
    part.ravel().neg_()
    return part


UNCERTAIN = [write_to_the_source, write_to_the_copy, write_to_a_reshape, write_to_a_flat_tensor, write_to_a_ravel]


@pytest.mark.parametrize("function", UNCERTAIN)
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_write_that_is_seen_at_some_sizes_is_refused(function: Callable[..., Any], size: int) -> None:
    """The two tensors share memory at 3 columns or fewer, and not at more."""
    with pytest.raises(CaptureError, match=r"neg_.* is read after|is read after aten::neg_.*to fix this, clone\(\)"):
        onnxexp.export(function, (torch.ones(4, size),), capture="export", dynamic_shapes=({1: "n"},))


@pytest.mark.parametrize("function", UNCERTAIN[:2])
def test_a_static_export_knows_what_is_shared(function: Callable[..., Any]) -> None:
    for size in (1, 3):
        x = torch.arange(4.0 * size).reshape(4, size)
        assert torch.equal(onnxexp.export(function, (x,), capture="export")(x), function(x))


def doubled(x: Tensor) -> Tensor:
    y = x.contiguous()
    y.mul_(2)
    return y + x


def cloned(x: Tensor) -> Tensor:
    part = (x + 0).split(3, -1)[0]
    copy = part.clone()
    part.neg_()
    return copy.contiguous()


def written_before(x: Tensor) -> Tensor:
    y = x + 0
    y.split(3, -1)[0].neg_()
    return y.split(3, -1)[0].contiguous().view(-1)


def only_the_copy_is_read(x: Tensor) -> Tensor:
    copy = (x * 2).split(3, -1)[0].contiguous()
    copy.neg_()
    return copy


RIGHT = {
    "not written": lambda x: x.split(3, -1)[0].contiguous() + 1,
    "a transpose": lambda x: x.t().contiguous().view(-1),
    "of a whole tensor": lambda x: doubled(x + 0),
    "of rows": lambda x: doubled((x + 0)[1:]),
    "cloned": cloned,
    "written before": written_before,
    "only the copy is read": only_the_copy_is_read,
    "as a function": lambda x: torch.Tensor.contiguous(x.split(3, -1)[0]) * 2,
}


@pytest.mark.parametrize("name", RIGHT)
def test_other_programs_are_right_at_every_size(name: str) -> None:
    function = RIGHT[name]
    program = exported(function)
    for size in (1, 2, 3, 4, 7):
        x = torch.arange(4.0 * size).reshape(4, size)
        assert torch.equal(program(x.clone()), function(x.clone())), size


def test_no_node_is_added() -> None:
    program = exported(lambda x: x.split(3, -1)[0].contiguous() * 2)
    assert [node.op_type for node in program.model.graph if node.op_type in ("Identity", "Reshape")] == []


def test_an_axis_of_another_input() -> None:
    """The slice is the whole tensor in the example."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        part = (x + 0)[:, : y.shape[0]]
        copy = part.contiguous()
        part.neg_()
        return copy

    with pytest.raises(CaptureError, match=r"to fix this, clone\(\)"):
        exported(function, torch.ones(2), names=({0: "m"},))


def test_in_strict_mode() -> None:
    """torch.export captures in strict mode where the non-strict mode fails."""

    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling():
                raise NotImplementedError
            part = (x + 0)[:, : torch.sym_min(x.shape[1], 3)]
            copy = part.contiguous()
            part.neg_()
            return copy

    with pytest.raises(CaptureError, match=r"to fix this, clone\(\)"):
        onnxexp.export(Model(), (X,), capture="export", dynamic_shapes=({1: "n"},))


def test_torch_is_as_it_was_afterwards() -> None:
    exported(RIGHT["not written"])
    assert "contiguous" not in vars(torch.Tensor)
