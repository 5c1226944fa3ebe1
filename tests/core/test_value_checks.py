"""Checks of values in a forward: the file is that of a model without them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import onnxexp
from onnxexp import CaptureError


def asserted(x: Tensor) -> Tensor:
    assert (x >= 0).all(), "negative"
    return x.sqrt()


def asserted_over_lines(x: Tensor) -> Tensor:
    assert not x.isnan().any()
    return x.sqrt()


def raised(x: Tensor) -> Tensor:
    if (x < 0).any() or x.isnan().any():
        raise ValueError("negative")
    return x.sqrt()


def raised_unless(x: Tensor) -> Tensor:
    if not torch.isfinite(x).all():
        raise ValueError("not finite")
    return x.sqrt()


def of_either_truth(x: Tensor) -> Tensor:
    assert (x >= 0).all() and not x.isnan().any()
    return x.sqrt()


def a_branch(x: Tensor) -> Tensor:
    return x.sqrt() if (x >= 0).all() else x


@pytest.mark.parametrize("model", [asserted, asserted_over_lines, raised, raised_unless])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_check_of_values_passes(model: Callable[[Tensor], Tensor], capture: str) -> None:
    program = onnxexp.export(model, (torch.rand(3),), capture=capture, dynamic_shapes=({0: "n"},))
    assert [node.op_type for node in program.model_proto.graph.node] == ["Sqrt"]
    for size in (1, 2, 5):
        x = torch.rand(size)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("model", [of_either_truth, a_branch])
def test_a_branch_on_values_is_refused(model: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(CaptureError, match="branches in Python on a value"):
        onnxexp.export(model, (torch.rand(3),), capture="export")


def handled(x: Tensor) -> Tensor:
    """Compute something else where a check fails, as the example does."""
    try:
        return asserted(x)
    except AssertionError:
        return x * 0


def suppressed(x: Tensor) -> Tensor:
    with contextlib.suppress(AssertionError):
        assert (x >= 0).all()
        x = x.sqrt()
    return x


@pytest.mark.parametrize("model", [handled, suppressed])
def test_a_check_whose_error_is_handled_is_a_branch(model: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(CaptureError, match="branches in Python on a value"):
        onnxexp.export(model, (torch.rand(3),), capture="export")
    with contextlib.suppress(ValueError):  # a caller of the export handles nothing of the model's
        onnxexp.export(asserted, (torch.rand(3),), capture="export")
    x = -torch.rand(3)
    torch.testing.assert_close(onnxexp.export(model, (x,))(x), model(x))
