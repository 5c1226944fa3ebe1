"""Numbers computed from a dynamic size, where torch takes a Python float."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention

from onnxexp import CaptureError, export

X = torch.randn(2, 4, 8)
W = torch.tensor([0.5, -1.0, 2.0, 1.5])
MASK = torch.ones(4, 4, dtype=torch.bool).tril()


def attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, scale=x.shape[2] ** -0.5)


def masked_attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, MASK, scale=1 / x.shape[2])


def causal_attention(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=x.shape[0] * 0.5)


def padding(x: Tensor) -> Tensor:
    return functional.pad(x, (1, 2), value=1 / x.shape[2])


def n(x: Tensor) -> Any:
    return x.shape[2]


TARGETS = torch.tensor([0, 1, 2, -100])
OTHER = torch.randn(4, 3)
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda x: functional.layer_norm(x.transpose(1, 2), (4,), W, W, eps=1 / n(x)),
    "layer_norm_half": lambda x: functional.layer_norm(x.transpose(1, 2).half(), (4,), eps=1 / n(x)).float(),
    "rms_norm": lambda x: functional.rms_norm(x.transpose(1, 2), (4,), W, eps=1 / n(x)),
    "batch_norm": lambda x: functional.batch_norm(x, W, W.abs(), W, W, eps=1 / n(x)),
    "batch_norm_of_batch": lambda x: functional.batch_norm(x, None, None, W, W, training=True, eps=1 / n(x)),
    "group_norm": lambda x: functional.group_norm(x, 2, W, W, eps=1 / n(x)),
    "instance_norm": lambda x: functional.instance_norm(x, eps=1 / n(x)),
    "cosine_similarity": lambda x: functional.cosine_similarity(x, x.abs(), eps=4.0 * n(x)),
    "pairwise_distance": lambda x: functional.pairwise_distance(x, x * 2, p=n(x) / 4, eps=1 / n(x)),
    "cdist": lambda x: torch.cdist(x, x, p=n(x) / 4),
    "cdist_p0": lambda x: torch.cdist(x, x * 1.0, p=n(x) // 4 - 1),
    "norm": lambda x: torch.norm(x, p=n(x) / 2, dim=1),
    "vector_norm_0": lambda x: torch.linalg.vector_norm(x.relu(), ord=(n(x) - 5) * 1.0, dim=1),
    "renorm": lambda x: torch.renorm(x, n(x) / 4, 0, 1.0),
    "dist": lambda x: torch.dist(x, x * 2, p=n(x) / 4),
    "var": lambda x: x.var(1, correction=n(x) / 8),
    "var_mean": lambda x: torch.stack(torch.var_mean(x, 1, correction=n(x) // 4, keepdim=True)),
    "std": lambda x: torch.std(x, correction=n(x) / 8, dim=(0, 1)),
    "std_mean": lambda x: torch.stack(torch.std_mean(x, 1, correction=n(x) / 8)),
    "logit": lambda x: torch.logit(x, eps=1 / (n(x) + 2)),
    "huber_loss": lambda x: functional.huber_loss(x, x * 2, delta=1 / n(x)),
    "smooth_l1_loss": lambda x: functional.smooth_l1_loss(x, x * 2, beta=1 / n(x), reduction="sum"),
    "margin_ranking_loss": lambda x: functional.margin_ranking_loss(x, x * 2, x.sign(), margin=1 / n(x)),
    "hinge_embedding_loss": lambda x: functional.hinge_embedding_loss(x, x.sign(), margin=n(x) * 1.0),
    "cosine_embedding_loss": lambda x: functional.cosine_embedding_loss(x[0], x[1], W.sign(), margin=1 / n(x)),
    "triplet_margin_loss": lambda x: functional.triplet_margin_loss(
        x, x * 2, x.abs(), margin=1 / n(x), p=n(x) / 4, eps=1 / n(x), swap=True, size_average=False
    ),
    "poisson_nll_loss": lambda x: functional.poisson_nll_loss(x.exp(), x.abs(), False, True, eps=1 / n(x), reduction="none"),
    "cross_entropy": lambda x: functional.cross_entropy(x.mean(0)[:, :1] + OTHER, TARGETS, W[:3].abs(), label_smoothing=1 / n(x)),
    "cross_entropy_of_images": lambda x: functional.cross_entropy(x, x.argmax(1) * 0 + 1, label_smoothing=1 / n(x)),
    "cross_entropy_chances": lambda x: functional.cross_entropy(x, x.softmax(1), label_smoothing=1 / n(x)),
    "isclose": lambda x: torch.isclose(x, x * 1.1, rtol=0.5 / n(x), atol=0.2 / n(x)),
    "nan_to_num": lambda x: torch.nan_to_num(x.relu() / 0, nan=1 / n(x), posinf=n(x) * 2.0),
    "quantile": lambda x: torch.quantile(x, 1 / n(x), dim=1),
    "nanquantile": lambda x: torch.nanquantile(x, 1 / n(x)),
    "rrelu": lambda x: functional.rrelu(x, 1 / (2 * n(x)), 1 / n(x)),
    "float_power": lambda x: torch.float_power(x.abs(), 1 / n(x)),
    "celu": lambda x: functional.celu(x, alpha=1 / n(x)),
    "hardshrink": lambda x: functional.hardshrink(x, lambd=1 / n(x)),
    "softshrink": lambda x: functional.softshrink(x, lambd=1 / n(x)),
    "trapezoid": lambda x: torch.trapezoid(x, dx=1 / n(x)),
    "cumulative_trapezoid": lambda x: torch.cumulative_trapezoid(x, dx=1 / n(x)),
    "logspace": lambda x: torch.logspace(1 / n(x), n(x) * 0.1, 7),
    "logspace_base": lambda x: torch.logspace(0, 1, 7, base=n(x) * 1.0),
    "pinv": lambda x: torch.linalg.pinv(x @ x.transpose(1, 2), rtol=1 / (100 * n(x))),
    "matrix_rank": lambda x: torch.linalg.matrix_rank(x.transpose(0, 1) * 0 + 1.0, tol=1 / n(x)),
}
EXPORTED_ONLY: dict[str, Callable[[Tensor], Tensor]] = {
    mode: functools.partial(
        lambda x, mode: functional.interpolate(x[None] if "bi" in mode else x, scale_factor=n(x) / 4, mode=mode), mode=mode
    )
    for mode in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic")
} | {
    "area": lambda x: functional.interpolate(x, scale_factor=n(x) * 0.5, mode="area"),
    "corners": lambda x: functional.interpolate(x, scale_factor=n(x) * 0.5, mode="linear", align_corners=True),
    "recomputed": lambda x: functional.interpolate(x, scale_factor=n(x) * 0.5, recompute_scale_factor=True),
}
"""A trace rounds computed sizes only where float32 suffices for that."""


@pytest.mark.parametrize(
    ("name", "capture"),
    [*((name, capture) for name in FUNCTIONS for capture in ("export", "trace")), *((name, "export") for name in EXPORTED_ONLY)],
)
def test_a_parameter_computed_from_a_size(name: str, capture: Any) -> None:
    model = (FUNCTIONS | EXPORTED_ONLY)[name]
    program = export(model, (X,), capture=capture, opset_version=20, dynamic_shapes=({2: "n"},))
    for size in (8, 5, 13, 4):
        x = torch.randn(2, 4, size)
        torch.testing.assert_close(
            program(x), model(x), rtol=2e-3 if "half" in name else 1e-4, atol=1e-3 if "half" in name else 1e-5
        )


def test_a_trace_resizes_by_a_factor_that_is_a_tensor() -> None:
    def model(x: Tensor) -> Tensor:
        factor = torch.minimum(10 / torch._shape_as_tensor(x)[2:].max().to(torch.float32), torch.tensor(3.0))
        return functional.interpolate(x, scale_factor=factor, mode="linear", recompute_scale_factor=True)  # type: ignore[arg-type]

    program = export(model, (X,), capture="trace", dynamic_shapes=({2: "n"},))
    for size in (8, 5, 2, 13):
        x = torch.randn(2, 4, size)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_random_numbers_with_parameters_computed_from_a_size(capture: Any) -> None:
    def model(x: Tensor) -> tuple[Tensor, ...]:
        dropped = functional.dropout(torch.ones_like(x), 1 / n(x), training=True)
        drawn = torch.bernoulli(x, 1 / n(x))
        return dropped, drawn, x.clone().uniform_(0, 2 / n(x)), x.clone().normal_(n(x) / 2, 1 / n(x))

    program = export(model, (torch.zeros(50, 40, 8),), capture=capture, training="preserve", dynamic_shapes=({2: "n"},))
    dropped, drawn, uniform, normal = program(torch.zeros(50, 40, 4))
    assert set(np.unique(dropped).tolist()) == {0.0, np.float32(4 / 3)}
    for values, mean in ((dropped, 1.0), (drawn, 0.25), (uniform, 0.25), (normal, 2.0)):
        assert abs(np.asarray(values).mean() - mean) < 0.03
    assert abs(np.asarray(normal).std() - 0.25) < 0.03
    assert np.asarray(uniform).max() <= 0.5


@pytest.mark.parametrize("factor", [lambda x: n(x) / 3, lambda x: n(x) * 0.1, lambda x: 17.3 / n(x)])
def test_an_inexact_scale_factor_is_refused(factor: Callable[[Tensor], Any]) -> None:
    def model(x: Tensor) -> Tensor:
        return functional.interpolate(x, scale_factor=factor(x))

    with pytest.raises(CaptureError, match="fixes a number that depends on a dynamic size"):
        export(model, (X,), capture="export", dynamic_shapes=({2: "n"},))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [13, 24])
@pytest.mark.parametrize("model", [attention, masked_attention, causal_attention, padding])
def test_a_number_computed_from_a_size(model: Any, opset: int, capture: Any) -> None:
    program = export(model, (X,), capture=capture, opset_version=opset, dynamic_shapes=({0: "b", 2: "n"},))
    for shape in ((2, 4, 8), (1, 4, 3), (5, 4, 17)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


def test_a_stored_reference_to_the_function() -> None:
    program = export(lambda x: scaled_dot_product_attention(x, x, x, scale=x.shape[2] ** -0.5), (X,), capture="export",
                     dynamic_shapes=({2: "n"},))  # fmt: skip
    x = torch.randn(2, 4, 5)
    torch.testing.assert_close(program(x), attention(x))
