"""nn/pooling.py, nn/adaptive_pooling.py: windows at edges, uneven windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnxexp
from onnxexp.testing import Case, cases, check_case

torch.manual_seed(0)

OPSETS = (9, 13, 22)
X = {1: torch.randn(2, 3, 11), 2: torch.randn(2, 3, 12, 10), 3: torch.randn(2, 2, 6, 7, 8)}
MAX: dict[int, Callable[..., Any]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE: dict[int, Callable[..., Any]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE_AVERAGE: dict[int, Callable[..., Any]] = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
ADAPTIVE_MAX: dict[int, Callable[..., Any]] = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}


def call(functions: dict[int, Callable[..., Any]], dims: int, *args: Any, **options: Any) -> Callable[[torch.Tensor], Any]:
    def pooled(x: torch.Tensor) -> Any:
        return functions[dims](x, *args, **options)

    pooled.__name__ = f"{functions[dims].__name__}{args}{options or ''}"
    return pooled


def some_dynamic(dims: int) -> dict[int, list[int]]:
    """Make the batch and the last axis dynamic."""
    return {0: [0, dims + 1]}


def all_dynamic(dims: int) -> dict[int, list[int]]:
    """Make the batch and every spatial axis dynamic."""
    return {0: [0, *range(2, dims + 2)]}


@cases(
    Case(call(MAX, 2, 3, 2, 1), X[2], dynamic=all_dynamic(2), opsets=(9, 10, 11, 13, 18, 22, 26), emits={"MaxPool"}),
    *(
        Case(
            call(MAX, dims, kernel, stride, 1, ceil_mode=True, return_indices=True),
            X[dims],
            dynamic=some_dynamic(dims),
            opsets=OPSETS,
        )
        for dims in (1, 2, 3)
        for kernel, stride in ((2, 2), (3, 2), (3, 5))
    ),
    *(
        # With this padding, each window has an element at every size: eager gives -inf where there is none.
        Case(
            call(MAX, dims, 2 * dilation, stride, dilation, dilation, True, True),
            X[dims],
            dynamic=some_dynamic(dims),
            opsets=(10, 18, 22),
        )
        for dims in (1, 2)
        for stride, dilation in ((2, 2), (3, 2))
    ),
    Case(torch.nn.Sequential(torch.nn.Conv1d(3, 4, 3), torch.nn.MaxPool1d(2)), X[1], dynamic={0: [0, 2]}, opsets=OPSETS),
    *(Case(call(MAX, dims, 2), X[dims][0], dynamic={0: [dims]}, opsets=OPSETS) for dims in (2, 3)),
    Case(call(MAX, 2, (3, 2), (2, 1), (1, 0)), X[2].double(), opsets=OPSETS),
    Case(call(MAX, 2, 3, 2), X[2].half(), opsets=OPSETS),
    *(
        Case(call(MAX, 2, 3, 2, 1, return_indices=True), (X[2] * 40).to(dtype), opsets=OPSETS)
        for dtype in (torch.int8, torch.int64)
    ),
)
def test_max(check):
    check()


def test_dilation_needs_opset_10():
    with pytest.raises(Exception, match="opset_version=10"):
        check_case(Case(call(MAX, 2, 2, dilation=2), X[2]), 9)


@cases(
    Case(call(AVERAGE, 2, 3, 2, 1), X[2], dynamic=all_dynamic(2), opsets=(9, 10, 11, 13, 18, 22, 26), emits={"AveragePool"}),
    *(
        Case(call(AVERAGE, dims, kernel, stride, 1, True, counted), X[dims], dynamic=some_dynamic(dims), opsets=OPSETS)
        for dims in (1, 2, 3)
        for kernel, stride in ((2, 2), (3, 2), (3, 5))
        for counted in (True, False)
    ),
    *(Case(call(AVERAGE, dims, 3, 2, 0, True), X[dims], dynamic=some_dynamic(dims), opsets=OPSETS) for dims in (1, 2)),
    *(Case(call(AVERAGE, dims, 3, 2, 1, True, True, 5), X[dims], dynamic=some_dynamic(dims), opsets=OPSETS) for dims in (2, 3)),
    Case(call(AVERAGE, 2, 2, divisor_override=4), X[2], emits={"AveragePool"}),
    Case(call(AVERAGE, 2, 3, 2, 1, True), X[2][0], dynamic={0: [2]}, opsets=OPSETS),
    Case(call(AVERAGE, 2, 3, 2, 1, True), X[2].double(), opsets=OPSETS, rtol=1e-5, atol=1e-6),
    Case(lambda x: F.lp_pool2d(x, 2, 3, 2), X[2].abs(), dynamic={0: [0]}, opsets=OPSETS, name="lp_pool2d"),
)
def test_average(check):
    check()


@cases(
    *(
        Case(call(ADAPTIVE_AVERAGE, dims, 1), X[dims], dynamic=all_dynamic(dims), opsets=OPSETS, emits={"GlobalAveragePool"})
        for dims in (1, 2, 3)
    ),
    Case(call(ADAPTIVE_AVERAGE, 2, (1, None)), X[2], dynamic=all_dynamic(2), emits={"ReduceMean"}),
    Case(call(ADAPTIVE_AVERAGE, 2, (3, 5)), X[2], dynamic={0: [0]}, emits={"AveragePool"}),
    Case(call(ADAPTIVE_AVERAGE, 2, 5), X[2], dynamic={0: [0]}, emits={"MatMul", "AveragePool"} - {"AveragePool"}),
    *(Case(call(ADAPTIVE_AVERAGE, dims, 4), X[dims], dynamic=all_dynamic(dims), opsets=OPSETS) for dims in (1, 2, 3)),
    Case(call(ADAPTIVE_AVERAGE, 2, (1, 7)), X[2], dynamic=all_dynamic(2), opsets=OPSETS),
    Case(call(ADAPTIVE_AVERAGE, 2, (5, None)), X[2][0], dynamic={0: [2]}, opsets=OPSETS),
    *(Case(call(ADAPTIVE_AVERAGE, 2, size), X[2].double(), dynamic={0: [0]}, opsets=OPSETS) for size in (1, 2, 5)),
)
def test_adaptive_average(check):
    check()


@cases(
    *(
        Case(call(ADAPTIVE_MAX, dims, 1), X[dims], dynamic=all_dynamic(dims), opsets=OPSETS, emits={"ReduceMax"})
        for dims in (1, 2, 3)
    ),
    Case(call(ADAPTIVE_MAX, 2, (3, 5)), X[2], dynamic={0: [0]}, opsets=OPSETS, emits={"MaxPool"}),
    Case(call(ADAPTIVE_MAX, 2, 5), X[2], dynamic={0: [0]}, opsets=OPSETS, emits={"Gather", "ReduceMax"}),
    *(
        Case(call(ADAPTIVE_MAX, dims, size, return_indices=True), X[dims], dynamic=some_dynamic(dims), opsets=OPSETS)
        for dims in (1, 2, 3)
        for size in (1, 2, 5)
    ),
    Case(call(ADAPTIVE_MAX, 2, (4, None), return_indices=True), X[2].double(), dynamic={0: [0]}, opsets=OPSETS),
    Case(call(ADAPTIVE_MAX, 2, (5, 4), return_indices=True), X[2][0], dynamic={0: [2]}, opsets=OPSETS),
)
def test_adaptive_max(check):
    check()


def test_the_first_of_equal_maxima():
    """Ties are found in the same place as torch finds them."""
    ties = torch.randint(0, 2, (2, 2, 9, 7)).float()
    for pool in (call(MAX, 2, 3, 2, 1, return_indices=True), call(ADAPTIVE_MAX, 2, 4, return_indices=True)):
        check_case(Case(pool, ties), 18)


def unpool(dims: int) -> Callable[[torch.Tensor], torch.Tensor]:
    functions = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}

    def unpooled(x: torch.Tensor) -> torch.Tensor:
        return functions[dims](*MAX[dims](x, 2, return_indices=True), 2)

    return unpooled


@cases(
    *(
        Case(unpool(dims), torch.randn(2, 3, *[4] * dims), dynamic={0: [0]}, opsets=OPSETS, name=f"unpool{dims}d")
        for dims in (1, 2, 3)
    )
)
def test_unpool(check):
    check()


@pytest.mark.parametrize("sizes", [(2, 3, 4, 6), (1, 3, 5, 7), (3, 3, 1, 1)], ids=str)
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.avg_pool2d(x, x.shape[2:]),
        lambda x: F.avg_pool2d(x, (1, x.shape[3])),
        lambda x: F.max_pool2d(x, (x.shape[2], 1), (x.shape[2], 1)),
        lambda x: F.max_pool2d(x[0], x.shape[2:]),
    ],
)
def test_a_window_of_a_whole_axis(pool, sizes):
    dynamic = ({0: "batch", 2: "height", 3: "width"},)
    program = onnxexp.export(pool, (torch.randn(2, 3, 4, 6),), capture="trace", dynamic_shapes=dynamic)
    x = torch.randn(sizes)
    torch.testing.assert_close(program(x), pool(x))


def test_another_window_of_a_size_known_at_run_time():
    model, dynamic = lambda x: F.avg_pool2d(x, (1, x.shape[3] // 2)), ({3: "width"},)
    with pytest.raises(onnxexp.LoweringError, match=r"a window of width//2 on an axis of size width; to fix this, "):
        onnxexp.export(model, (torch.randn(2, 3, 4, 6),), capture="trace", dynamic_shapes=dynamic)


@pytest.mark.parametrize("pool", [torch.nn.AvgPool2d(2, 1), torch.nn.MaxPool2d(2, 1)])
def test_a_pool_has_its_strides_and_pads(pool: torch.nn.Module) -> None:
    """MNN ends its process at a pool without strides."""
    (node,) = onnxexp.export(pool, (torch.randn(1, 2, 5, 5),)).model.graph
    assert list(node.attributes["strides"].as_ints()) == [1, 1]
    assert list(node.attributes["pads"].as_ints()) == [0, 0, 0, 0]
