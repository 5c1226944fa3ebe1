"""Results that are inferred without torch are those of torch's own kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import onnxexp
from onnxexp._errors import CaptureError
from onnxexp_torchscript.jit.jit_schemas import named
from onnxexp_torchscript.types.abstract_tensor import AbstractTensor
from onnxexp_torchscript.types.shape_functions import infer_result


def of(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor without contents."""
    return torch.empty(sizes, dtype=dtype, device="meta")


IMAGE, INTS = of(2, 8, 13, 10), of(3, 4, dtype=torch.int64)
CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("aten::relu", (IMAGE,)),
    ("aten::gelu", (IMAGE, "tanh")),
    ("aten::log", (IMAGE,)),
    ("aten::softmax.int", (IMAGE, 1, None)),
    *((f"aten::{name}.Tensor", (IMAGE, other, 1)) for name in ("add", "sub") for other in (of(10), of(8, 1, 1), of(2, 8, 13, 1))),
    ("aten::add.Tensor", (INTS, INTS, 2)),
    ("aten::add.Tensor", (of(4, dtype=torch.uint8), of(3, 1, dtype=torch.uint8), 1)),
    ("aten::mul.Tensor", (INTS, 2)),
    ("aten::mul.Tensor", (of(10), IMAGE)),
    ("aten::div.Tensor", (IMAGE, of(13, 1))),
    ("aten::eq.Tensor", (INTS, of(4, dtype=torch.int64))),
    ("aten::lt.Scalar", (INTS, 2)),
    ("aten::logical_and", (of(3, 1, dtype=torch.bool), of(4, dtype=torch.bool))),
    ("aten::linear", (of(2, 5, 6), of(7, 6), of(7))),
    ("aten::addmm", (of(7), of(5, 6), of(6, 7), 1, 1)),
    ("aten::matmul", (of(2, 5, 6), of(2, 6, 7))),
    ("aten::bmm", (of(2, 5, 6), of(2, 6, 7))),
    *(
        ("aten::scaled_dot_product_attention", (of(2, 4, 5, 6), of(2, 4, 7, 6), of(2, 4, 7, 8), mask, 0.0, False, None, False))
        for mask in (None, of(5, 7), of(2, 1, 5, 7), of(2, 1, 1, 7))
    ),
    ("aten::transpose.int", (IMAGE, 1, -1)),
    ("aten::permute", (IMAGE, [0, 2, 3, 1])),
    *(("aten::unsqueeze", (INTS, dim)) for dim in (0, 2, -1)),
    ("aten::select.int", (IMAGE, -1, 3)),
    *(
        ("aten::slice.Tensor", (IMAGE, dim, start, end, step))
        for dim in (2, -1)
        for start, end, step in ((None, None, 1), (0, 2**63 - 1, 1), (2, -1, 1), (-4, 99, 2), (5, 3, 1), (-99, 7, 3), (20, 30, 1))
    ),
    *(("aten::reshape", (IMAGE, sizes)) for sizes in ([2, -1], [-1, 13, 10], [16, 130], [2, 8, 130], [2, 8, 13, 10], [-1])),
    ("aten::expand", (of(8, 1), [2, -1, 5], False)),
    ("aten::embedding", (of(9, 4), INTS, -1, False, False)),
    ("aten::layer_norm", (of(2, 4, 9), [4, 9], None, None, 1e-5, True)),
    ("aten::batch_norm", (of(2, 4, 9), of(4), of(4), of(4), of(4), False, 0.1, 1e-5, True)),
    ("aten::group_norm", (of(2, 4, 9), 2, of(4), of(4), 1e-5, True)),
    ("aten::conv1d", (of(2, 4, 9), of(6, 2, 3), None, [2], [1], [1], 2)),
    ("aten::conv2d", (IMAGE, of(6, 8, 3, 2), None, [2, 1], [1], [2, 3], 1)),
    *(
        (f"aten::max_pool{rank}d", (of(2, 3, *(13, 10, 7)[:rank]), kernel, stride, padding, dilation, ceil))
        for rank in (1, 2, 3)
        for kernel, stride, padding, dilation in (([3], [2], [1], [1]), ([2], [], [0], [1]), ([3], [3], [1], [2]))
        for ceil in (False, True)
    ),
    *(
        (f"aten::avg_pool{rank}d", (of(3, *(13, 10, 7)[:rank]), kernel, stride, padding, ceil, True, *[None] * (rank > 1)))
        for rank in (1, 2, 3)
        for kernel, stride, padding in (([3], [2], [1]), ([2], [], [0]), ([4], [3], [2]))
        for ceil in (False, True)
    ),
    ("aten::adaptive_avg_pool2d", (IMAGE, [3, 1])),
    ("aten::pixel_shuffle", (IMAGE, 2)),
    ("aten::col2im", (of(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])),
    ("aten::col2im", (of(12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])),
    ("aten::upsample_bilinear2d.vec", (IMAGE, [20, 31], False, None)),
    ("aten::upsample_nearest2d.vec", (IMAGE, [20, 31], None)),
    *(("aten::flatten.using_ints", (IMAGE, start, end)) for start, end in ((0, -1), (1, -1), (1, 2), (2, 2))),
    ("aten::flatten.using_ints", (of(), 0, -1)),
    *(("aten::mean.dim", (IMAGE, dims, keep, None)) for dims in ([1], [-1, 2]) for keep in (False, True)),
    ("aten::sum.dim_IntList", (IMAGE, [0], True, None)),
    ("aten::pow.Tensor_Scalar", (IMAGE, 2)),
    ("aten::to.dtype", (IMAGE, torch.int32, False, False, None)),
    ("aten::to.dtype_layout", (INTS, torch.float16, None, None, None, False, False, None)),
    ("aten::zeros_like", (INTS, None, None, None, None, None)),
    ("aten::full_like", (INTS, 1.5, torch.float64, None, None, None, None)),
    ("aten::cat", ([of(2, 3), of(2, 5)], -1)),
    ("aten::contiguous", (IMAGE, torch.contiguous_format)),
]  # fmt: skip


def asked(name: str, args: tuple[Any, ...]) -> AbstractTensor | None:
    """Infer the result of a call by the shape functions."""
    return infer_result(
        name, pytree.tree_map_only(torch.Tensor, lambda tensor: AbstractTensor(tensor.dtype, tensor.shape), list(args))
    )


@pytest.mark.parametrize(("name", "args"), CALLS, ids=[f"{number}-{name}" for number, (name, _) in enumerate(CALLS)])
def test_shortcut_says_what_torch_gives(name: str, args: tuple[Any, ...]) -> None:
    operator = named(name).op
    assert operator is not None
    keywords = {a.name: arg for a, arg in zip(operator._schema.arguments, args, strict=True) if a.kwarg_only}
    expected = operator(*args[: len(args) - len(keywords)], **keywords)
    found = asked(name, args)
    assert found is not None
    assert (found.dtype, found.shape) == (expected.dtype, tuple(expected.shape))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::div.Tensor", (INTS, INTS)),
        ("aten::add.Tensor", (INTS, 0.5, 1)),
        ("aten::add.Tensor", (INTS, of(4), 1)),
        ("aten::relu", (INTS,)),
        ("aten::pow.Tensor_Scalar", (INTS, 2)),
        ("aten::mean.dim", (IMAGE, None, False, None)),
        ("aten::reshape", (IMAGE, [3, -1])),
        ("aten::max_pool2d", (IMAGE, [20], [1], [0], [1], False)),
        ("aten::addmm", (of(5, 1), of(5, 6), of(6, 7), 1, 1)),
    ],
)
def test_torch_is_asked(name: str, args: tuple[Any, ...]) -> None:
    """torch itself runs where dtypes promote, or the call may not be allowed."""
    assert asked(name, args) is None


class Layer(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer.eval()

    def forward(self, x):
        return self.layer(x.float())


WEIGHTED = [
    (nn.LayerNorm(4), (3, 4), 1),
    (nn.LayerNorm((4, 5)), (3, 4, 5), 1),
    (nn.BatchNorm1d(4), (3, 4, 5), 1),
    (nn.GroupNorm(2, 4), (3, 4, 5), 1),
    (nn.InstanceNorm1d(4, affine=True), (3, 4, 5), 1),
    (nn.Conv1d(4, 2, 3), (3, 4, 5), 1),
    (nn.LSTMCell(4, 5), (3, 4), 1),
    (nn.GRUCell(4, 5), (3, 4), 1),
    (nn.RNNCell(4, 5), (3, 4), 1),
]


@pytest.mark.parametrize("capture", ["script", "trace"])
@pytest.mark.parametrize(("layer", "sizes", "axis"), WEIGHTED, ids=[f"{type(row[0]).__name__}-{row[1]}" for row in WEIGHTED])
def test_weights_fix_an_axis(layer: nn.Module, sizes: tuple[int, ...], axis: int, capture: str) -> None:
    """The layers accept one size of this axis, so that it cannot be dynamic."""
    with pytest.raises(CaptureError, match=f"axis {axis} of input x .* but the model fixes it to 4"):
        onnxexp.export(Layer(layer), (torch.randn(sizes),), dynamic_shapes=[{axis: "size"}], capture=capture)


@pytest.mark.parametrize("capture", ["script", "trace"])
def test_fold_keeps_batch_and_channels(capture: str) -> None:
    program = onnxexp.export(nn.Fold((4, 5), 2), (torch.randn(2, 12, 12),), dynamic_shapes=[{0: "n", 1: "c"}], capture=capture)
    for sizes in ((2, 12, 12), (1, 4, 12), (5, 20, 12)):
        x = torch.randn(sizes)
        torch.testing.assert_close(program(x), nn.Fold((4, 5), 2)(x))
