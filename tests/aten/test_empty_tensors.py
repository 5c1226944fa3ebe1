"""Dynamic axes of size 0 and 1 at run time, which the export did not see."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import onnxruntime as ort
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import onnxexp

Model = Callable[[Tensor], Tensor]


def written_through_flatten(x: Tensor) -> Tensor:
    y = x + 0
    y.flatten().add_(1)
    return y


MODELS: dict[str, Model] = {
    "cumprod": lambda x: x.cumprod(0),
    "cumprod of the last axis": lambda x: x.cumprod(-1),
    "cummax": lambda x: torch.stack(list(x.cummax(0))),
    "cummin": lambda x: torch.stack(list(x.cummin(1))),
    "cummax of all": lambda x: x.flatten().cummax(0)[1],
    "logcumsumexp": lambda x: x.float().logcumsumexp(1),
    "median": lambda x: x.median(),
    "median of floats": lambda x: x.float().median(),
    "roll by half": lambda x: x.roll(x.shape[0] // 2, 0),
    "roll": lambda x: x.roll((3, -2), (0, 1)),
    "diag_embed": lambda x: torch.diag_embed(x),
    "diag_embed above": lambda x: torch.diag_embed(x, 2, 0, 1),
    "diag_embed below": lambda x: torch.diag_embed(x, -1),
    "group_norm": lambda x: F.group_norm(x.float().sum(1)[:, None, None].expand(-1, 4, 3), 2),
    "index_fill": lambda x: x[:, :0].index_fill(0, torch.tensor([0, -1]), 7),
    "index_fill of the last axis": lambda x: x[:0].index_fill(1, torch.tensor([0]), 7),
    "remainder by a size": lambda x: x % x.shape[0],
    "quotient by a size": lambda x: x // x.shape[1],
    "truncated quotient by a size": lambda x: torch.div(x, x.shape[1], rounding_mode="trunc"),
    "take_along_dim": lambda x: x.take_along_dim((x > 0).long(), 0),
    "take_along_dim of the last axis": lambda x: x.take_along_dim(x.long(), -1),
    "average of whole images": lambda x: F.adaptive_avg_pool2d(x.float()[:, :, None, None].expand(-1, -1, 4, 3), 1),
    "unfold": lambda x: F.unfold(x.float().sum(1)[:, None, None, None].expand(-1, 2, 3, 4), 2, padding=1),
    "flatten": lambda x: (x[:, :, None] * x[:, None]).flatten(1),
}
RESHAPES: dict[str, Model] = {
    "diagonal": lambda x: x[None].expand(3, -1, -1).diagonal(1, 0, 2),
    "diagonal of matrices": lambda x: x[:, None].expand(-1, 4, -1).diagonal(0, 1, 2),
    "reshape": lambda x: x.reshape(x.shape[1], x.shape[0]),
    "reshape_as": lambda x: x.reshape_as(x.t()),
    "write through flatten": written_through_flatten,
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flip(0)),
    "masked_scatter of nothing": lambda x: torch.ones(2, 3).masked_scatter(torch.zeros(2, 3) > 0, x.float()),
    "roll of all": lambda x: x.roll(2),
    "kron": lambda x: torch.kron(x, x),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x[None, None].expand(1, 4, -1, -1), 2),
    "flatten(2)": lambda x: (x[:, None, :, None] * x[:, None, None]).flatten(2),
    "unflatten": lambda x: x.repeat(1, 6).unflatten(1, (3, -1)),
    "unflatten in four": lambda x: x.repeat(1, 6)[None].expand(2, -1, -1).unflatten(2, (3, -1, 2)),
    "put": lambda x: x.put(torch.zeros(0, dtype=torch.long), x.new_zeros(0)),
}
"""Before opset 14 a 0 in the target of Reshape means a copy."""


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("opset", [10, pytest.param(13, marks=pytest.mark.full), 20])
@pytest.mark.parametrize("name", [*MODELS, *RESHAPES])
def test_sizes_of_0_and_1(name: str, opset: int, capture: str) -> None:
    model = MODELS.get(name) or RESHAPES[name]
    x = torch.randint(-3, 4, (4, 3), generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = onnxexp.export(model, (x,), dynamic_shapes=({0: "n", 1: "m"},), capture=capture, opset_version=opset)
    empty = [] if name in RESHAPES and opset < 14 else [(0, 3), (4, 0), (0, 0)]
    for sizes in [(5, 7), (1, 3), (4, 1), (1, 1), *empty]:
        given = torch.randint(-3, 4, sizes, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(program(given), model(given), equal_nan=True, msg=lambda text, at=sizes: f"{text} at {at}")


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_other_sizes_of_an_empty_slice(capture: str) -> None:
    """torch.export takes the end of ``x[:, : x.size(2)]`` for a size of the result, since the example's sizes are equal."""

    def model(x: Tensor) -> Tensor:
        return x[:, 1 : x.size(2), 3:3]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = onnxexp.export(model, (torch.rand(5, 5, 5),), dynamic_shapes=({0: "a", 1: "b", 2: "c"},), capture=capture)
    x = torch.rand(6, 7, 8)
    (found,) = ort.InferenceSession(program.model_proto.SerializeToString()).run(None, {"x": x.numpy()})
    assert found.shape == tuple(model(x).shape)
