"""nn/normalization.py: fused and composed, with stored and with batch statistics."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from onnxexp.testing import Case, cases

torch.manual_seed(0)

OPSETS = (9, 17, 23)
X = {0: torch.randn(4, 6), 1: torch.randn(2, 6, 11), 2: torch.randn(2, 6, 12, 10), 3: torch.randn(2, 6, 5, 6, 7)}
BATCH: dict[int, Any] = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
INSTANCE: dict[int, Any] = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
HALF = {"rtol": 1e-2, "atol": 5e-3}


def seen(module: nn.Module) -> nn.Module:
    """Replace the initial statistics and weights of a module, for inference."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 2.0)
    return module.eval()


def dynamic(dims: int) -> dict[int, list[int]]:
    return {0: [0, dims + 1] if dims else [0]}


@cases(
    Case(seen(nn.BatchNorm2d(6)), X[2], dynamic={0: [0, 2, 3]}, opsets=(*OPSETS, 26), emits={"BatchNormalization"}),
    *(Case(seen(BATCH[dims](6)), X[dims], dynamic=dynamic(dims), opsets=OPSETS, name=f"batch_norm{dims}") for dims in (0, 1, 3)),
    Case(seen(nn.BatchNorm2d(6, affine=False)), X[2], opsets=OPSETS, emits={"BatchNormalization"}),
    Case(seen(nn.BatchNorm2d(6, track_running_stats=False)), X[2], dynamic=dynamic(2), opsets=OPSETS),
    Case(seen(nn.BatchNorm2d(6)).double(), X[2].double(), opsets=OPSETS, emits={"BatchNormalization"}),
    Case(seen(nn.BatchNorm2d(6)).half(), X[2].half(), opsets=(9, 20), **HALF),
)
def test_batch_norm(check):
    check()


def in_training(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, torch.zeros(6), torch.ones(6), weight, bias, training=True)


def with_updates(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
    mean, variance = torch.full((6,), 0.5), torch.full((6,), 1.5)
    return torch.ops.aten._native_batch_norm_legit_functional(x, weight, bias, mean, variance, True, 0.1, 1e-5)


def decomposed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
    mean, variance = torch.full((6,), 0.5), torch.full((6,), 1.5)
    aten = torch.ops.aten
    return (
        aten._native_batch_norm_legit_no_training(x, weight, bias, mean, variance, 0.1, 1e-5)[0],
        aten._native_batch_norm_legit.no_stats(x, weight, None, True, 0.1, 1e-5),
        aten.native_batch_norm(x, weight, bias, mean, variance, False, 0.1, 1e-5)[0],
        aten.native_layer_norm(x, [10], None, None, 1e-5),
        aten._fused_rms_norm(x, [10], None, 1e-6),
    )


def group_with_statistics(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
    return torch.native_group_norm(x, weight, bias, 2, 6, 120, 3, 1e-5)


@cases(
    *(
        Case(fn, X[2], torch.rand(6), torch.rand(6), dynamic=None if fn is group_with_statistics else {0: [0]}, opsets=OPSETS)
        for fn in (in_training, with_updates, decomposed, group_with_statistics)
    )
)
def test_statistics_of_the_batch(check):
    check()


@cases(
    *(
        Case(seen(INSTANCE[dims](6)), X[dims], dynamic=dynamic(dims), opsets=OPSETS, name=f"instance_norm{dims}")
        for dims in (1, 2, 3)
    ),
    Case(seen(nn.InstanceNorm2d(6, affine=True)), X[2], opsets=OPSETS, emits={"InstanceNormalization"}),
    Case(seen(nn.InstanceNorm2d(6, affine=True, track_running_stats=True)), X[2], opsets=OPSETS, emits={"BatchNormalization"}),
    Case(nn.InstanceNorm2d(6), X[2][0], dynamic={0: [2]}, opsets=OPSETS, name="unbatched"),
    Case(seen(nn.InstanceNorm2d(6, affine=True)).double(), X[2].double(), opsets=(9, 20)),
    Case(nn.InstanceNorm2d(6), X[2].half(), opsets=(9, 20), name="half", **HALF),
)
def test_instance_norm(check):
    check()


@cases(
    *(
        Case(
            seen(nn.GroupNorm(3, 6)),
            X[dims],
            dynamic=dynamic(dims),
            opsets=OPSETS,
            rtol=1e-4,
            atol=1e-4,
            name=f"group_norm{dims}",
        )
        for dims in (0, 1, 2, 3)
    ),
    Case(seen(nn.GroupNorm(2, 6)), X[2], dynamic={0: [0, 2, 3]}, opsets=OPSETS),
    Case(seen(nn.GroupNorm(6, 6)), X[2], dynamic={0: [0, 2, 3]}, opsets=OPSETS, emits={"InstanceNormalization"}),
    Case(nn.GroupNorm(3, 6, affine=False), X[2], opsets=OPSETS, emits={"Reshape", "InstanceNormalization"}),
    Case(seen(nn.GroupNorm(3, 6)).double(), X[2].double(), opsets=(9, 20)),
)
def test_group_norm(check):
    check()


def over_a_dynamic_axis(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return F.layer_norm(x, x.shape[-1:]), F.rms_norm(x, x.shape[-1:])


@cases(
    Case(seen(nn.LayerNorm(10)), X[2], dynamic={0: [0, 2]}, opsets=(*OPSETS, 26), emits={"LayerNormalization"}),
    Case(seen(nn.LayerNorm((12, 10), bias=False)), X[2], dynamic={0: [0]}, opsets=OPSETS, emits={"LayerNormalization"}),
    Case(nn.LayerNorm(10, elementwise_affine=False), X[2], dynamic={0: [0]}, opsets=OPSETS, emits={"LayerNormalization"}),
    Case(seen(nn.LayerNorm(10)).double(), X[2].double(), opsets=OPSETS),
    Case(seen(nn.LayerNorm(10)).half(), X[2].half(), opsets=OPSETS, **HALF),
    Case(over_a_dynamic_axis, X[2], dynamic={0: [3]}, opsets=OPSETS),
)
def test_layer_norm(check):
    check()


@cases(
    Case(seen(nn.RMSNorm(10)), X[2], dynamic={0: [0, 2]}, opsets=(*OPSETS, 26), emits={"RMSNormalization"}),
    Case(seen(nn.RMSNorm((12, 10), eps=1e-3)), X[2], dynamic={0: [0]}, opsets=OPSETS, emits={"RMSNormalization"}),
    Case(nn.RMSNorm(10, elementwise_affine=False), X[2].double(), opsets=OPSETS),
    Case(nn.RMSNorm(10), X[2].half() * 1e-3, opsets=OPSETS, name="half", **HALF),
    Case(seen(nn.RMSNorm(10)), X[2], opsets=(13, 20), emits={"Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"}),
)
def test_rms_norm(check):
    check()


@cases(
    Case(nn.LocalResponseNorm(3), X[2], dynamic={0: [0]}, opsets=(9, 20), name="local_response_norm"),
    Case(lambda x: F.normalize(x, dim=1), X[2], dynamic={0: [0]}, opsets=(9, 20), name="normalize"),
    Case(F.cosine_similarity, X[2], X[2].flip(0), dynamic={0: [0], 1: [0]}, opsets=(9, 20)),
    Case(F.pairwise_distance, X[2], X[2].flip(0), dynamic={0: [0], 1: [0]}, opsets=(9, 20)),
)
def test_composites(check):
    check()


class AfterResidual(nn.Module):
    """A block of a transformer: the norm of a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(10)

    def forward(self, x, y):
        return self.norm(x.relu() + y)


@cases(
    Case(
        AfterResidual(),
        X[2][0],
        X[2][0],
        dynamic={0: [0, 1], 1: [0, 1]},
        opsets=(17,),
        emits={"Relu", "Add", "LayerNormalization"},
    ),
)
def test_a_residual_addition_stays_an_add(check):
    """Fusions, ONNX Runtime's among them, look for Add before LayerNormalization."""
    check()
