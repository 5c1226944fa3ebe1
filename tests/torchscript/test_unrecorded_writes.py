"""Writes that torch's tracer drops: to possibly returned arguments, and `resize_`."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from onnxexp import CaptureError

from .running import Program, exported, programs

X, MORE = torch.arange(6.0).reshape(2, 3), torch.arange(15.0).reshape(5, 3)
ROWS = [{0}]


def atleast(x: Tensor) -> Tensor:
    torch.atleast_3d(x).add_(1)
    return x + 0


def einsum(x: Tensor) -> Tensor:
    y = x * 1
    torch.einsum("ij->ji", y)[1].mul_(5)
    return y


def einsum_that_copies(x: Tensor) -> Tensor:
    y = x * 1
    torch.einsum("ij,ij->ij", y, y).mul_(5)
    return y


def features_dropped(x: Tensor) -> Tensor:
    y = x * 1
    F.dropout2d(y[None, None], 0.5, False).add_(1)
    F.alpha_dropout(y, 0.5, False).mul_(3)
    return y


def of_the_same_type(x: Tensor) -> Tensor:
    y = x * 1
    y.unflatten(1, (-1, 1)).type_as(x).add_(1)
    return y


def of_another_type(x: Tensor) -> Tensor:
    y = x * 1
    y.type_as(torch.ones(1, dtype=torch.float64)).add_(1)
    return y


def piece(x: Tensor) -> Tensor:
    y = x * 1
    torch.broadcast_tensors(torch.atleast_2d(y), x)[0].select(1, 0).add_(1)
    return y


@programs(
    *(
        Program(fn, X, at=[(MORE,), (X[:1],)], dynamic=ROWS, captures=("trace", "export"))
        for fn in (atleast, einsum, einsum_that_copies, features_dropped, of_the_same_type, of_another_type, piece)
    )
)
def test_writes_through_undeclared_views(run) -> None:
    run()


def resized(x: Tensor) -> Tensor:
    y = x * 1
    y.resize_(x.shape[0], 2).add_(1)
    return y


def resized_as(x: Tensor) -> Tensor:
    y = torch.cat([x, x])
    torch.resize_as_(y, x)
    return y


@programs(*(Program(fn, X, at=[(MORE,), (X[:1],)], dynamic=ROWS, captures=("trace",)) for fn in (resized, resized_as)))
def test_first_elements(run) -> None:
    run()


def test_scripts_do_not_know_the_number_of_elements() -> None:
    with pytest.raises(
        CaptureError, match="aten::resize_as_ resizes a tensor whose sizes depend on the run time .*; to fix this, take"
    ):
        exported(resized_as, (X,), capture="script", dynamic_shapes=({0: "rows"},))


def test_the_caller_s_tensor_keeps_its_size() -> None:
    x = X.clone()
    assert exported(lambda x: x.resize_(3), (x,), capture="trace")(X).tolist() == [0, 1, 2]
    assert x.shape == X.shape


@pytest.mark.parametrize(
    ("resize", "why"),
    [
        (lambda x: (x * 2).resize_(3, 3), "from 6 to 9 elements: the last ones are undefined"),
        (lambda x: (x * 2).resize_as_(torch.ones(7)), "from 6 to 7 elements: the last ones are undefined"),
        (lambda x: (x.t() * 2).resize_(4), "whose elements have another order in memory"),
        (lambda x: (x * 2).resize_(1, 1, 2, 2, memory_format=torch.channels_last), "to another memory format"),
    ],
)
def test_resizing_to_what_is_not_certain(resize, why: str) -> None:
    with pytest.raises(
        CaptureError, match=rf"resize_(as_)? resizes .* {why}; to fix this, take the .* flatten.*\n  at .*lambda x"
    ):
        exported(lambda x: resize(x) + 1, (X,), capture="trace")


def test_what_is_resized_from_nothing() -> None:
    def allocated(x: Tensor) -> Tensor:
        return torch.empty(0).resize_(2, 3).copy_(x)

    torch.testing.assert_close(exported(allocated, (X,), capture="trace")(X + 1), X + 1)


@pytest.mark.parametrize("fn", [atleast, einsum, of_the_same_type])
def test_scripts_that_lose_a_write(fn) -> None:
    with pytest.raises(CaptureError, match=r"another program: the model's result differs .*; to fix this, write into the tensor"):
        exported(fn, (X,), capture="script")


def test_scripts_that_fail_alone() -> None:
    def refusing(x: Tensor) -> Tensor:
        if torch.jit.is_scripting():
            raise ValueError("not here")
        return x + 1

    with pytest.raises(CaptureError, match="(?s)torch.jit.script compiles fails on the example inputs: .*not here"):
        exported(refusing, (X,), capture="script")


def test_random_scripts_are_compared_with_equal_numbers() -> None:
    def dropped(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, True) + torch.rand_like(x)

    exported(dropped, (X,), capture="script")
