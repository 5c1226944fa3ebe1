"""Sizes inferred from runs at several sizes, in any order, also at 0 and 1."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from onnxexp_torchscript.types.abstract_tensor import AbstractTensor
from onnxexp_torchscript.types.call_probes import SizeProbe
from onnxexp_torchscript.types.type_inference import TypeInference

from .running import Program, programs

BOTH = ("trace", "script")
SHAPES = [(6, 3), (3, 6), (3, 3), (9, 2), (2, 2), (1, 1), (4, 1), (1, 4), (40, 7)]


def rows_by_columns(x: Tensor) -> Tensor:
    y = x[: x.size(1)]
    return y + torch.ones(y.size(0), 1)


def rows_by_one_column_less(x: Tensor) -> Tensor:
    y = x[: x.size(1) - 1]
    return y + torch.ones(y.size(0), 1)


def last_rows_by_columns(x: Tensor) -> Tensor:
    y = x[-x.size(1) :]
    return y + torch.ones(y.size(0), 1)


def triangle(x: Tensor) -> Tensor:
    y = x.tril()[: x.size(1)]
    return y + torch.ones(y.size(0), 1)


def diagonal(x: Tensor) -> Tensor:
    y = x.diag()
    return y + torch.ones(y.shape[0])


def rows_by_another(x: Tensor, y: Tensor) -> Tensor:
    z = x[: y.size(0) + 1]
    return z + torch.ones(z.size(0), 1)


def rows_as_another(x: Tensor, y: Tensor) -> Tensor:
    z = x[: y.size(0)]
    return z + torch.ones(z.size(0), 1)


def constant_by_another(x: Tensor, y: Tensor) -> Tensor:
    z = x[: y.size(0) // 4]
    return z + torch.ones(z.size(0), 1)


def decoder_step(x: Tensor) -> Tensor:
    b = functional.max_pool2d(functional.max_pool2d(x, 2), 2)
    u = functional.interpolate(functional.max_pool2d(b, 2), scale_factor=2.0, mode="bilinear", align_corners=True)
    return torch.cat([b, functional.pad(u, [0, b.size(3) - u.size(3), 0, b.size(2) - u.size(2)])], 1)


def centred(x: Tensor) -> Tensor:
    u = functional.interpolate(functional.avg_pool2d(x, 2), scale_factor=2.0)
    rows, columns = x.size(2) - u.size(2), x.size(3) - u.size(3)
    return x + functional.pad(u, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])


def matrices(*shapes: tuple[int, ...]) -> list[tuple[Tensor, ...]]:
    return [(torch.arange(float(a * b)).reshape(a, b),) for a, b in shapes]


def images(*shapes: tuple[int, int]) -> list[tuple[Tensor, ...]]:
    return [(torch.arange(3.0 * a * b).reshape(1, 3, a, b) % 17,) for a, b in shapes]


@programs(
    *(
        Program(fn, *matrices(first)[0], at=matrices(*SHAPES), dynamic=[{0, 1}], captures=BOTH, opsets=(11, 20))
        for fn in [rows_by_columns, rows_by_one_column_less, last_rows_by_columns, triangle, diagonal]
        for first in [(6, 3), (3, 6), (4, 4)]
    ),
    *(
        Program(
            fn, torch.randn(first, 3), torch.randn(other), dynamic=[{0}, {0}], captures=BOTH, opsets=(11, 20),
            at=[(torch.randn(a, 3), torch.randn(b)) for a, b in [(6, 5), (5, 6), (1, 9), (9, 1), (5, 5), (1, 1), (2, 40)]],
        )
        for fn in [rows_by_another, rows_as_another, constant_by_another]
        for first, other in [(6, 4), (4, 6)]
    ),
    Program(
        rows_as_another, torch.randn(8, 3), torch.randn(4), dynamic=[None, {0}], captures=BOTH, opsets=(11, 20),
        at=[(torch.randn(8, 3), torch.randn(size)) for size in (1, 7, 8, 9, 300)],
    ),
    *(
        Program(fn, *images(first)[0], at=images(*at), dynamic=[{2, 3}], captures=BOTH, opsets=(11, 20))
        for fn, first, at in [
            (decoder_step, (36, 52), [(32, 32), (40, 64), (8, 9), (47, 33), (64, 96)]),
            (decoder_step, (32, 64), [(36, 52), (44, 12), (8, 8), (47, 33)]),
            (centred, (9, 13), [(2, 2), (3, 3), (8, 9), (9, 8), (47, 33)]),
        ]
    ),
)  # fmt: skip
def test_sizes_in_any_order(run) -> None:
    run()


def shrunk(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=0.7, mode="area")


def narrowed_at_the_end(x: Tensor) -> Tensor:
    return shrunk(x).narrow(-1, -1, 1)


def narrowed_from_the_end(x: Tensor) -> Tensor:
    return shrunk(x).narrow(2, -2, 2) + shrunk(x).narrow(2, -2, 1) + shrunk(x).narrow(2, 0, 2)


@programs(
    *(
        Program(
            fn, torch.randn(1, 2, 10), at=[(torch.randn(1, 2, size),) for size in (3, 5, 20)] if dynamic else (),
            dynamic=[dynamic], captures=BOTH, opsets=(11, 20),
        )
        for fn in [narrowed_at_the_end, narrowed_from_the_end]
        for dynamic in [None, {2}]
    ),
)  # fmt: skip
def test_narrow_of_an_unknown_size(run) -> None:
    run()


def doubled_after_an_attempt(x: Tensor) -> Tensor:
    pooled = functional.max_pool1d(x, 3, 2, 1, ceil_mode=True)
    return functional.interpolate(x, scale_factor=2.0).cumsum(1) + pooled.size(1)


@programs(
    Program(
        doubled_after_an_attempt, torch.randn(2, 4, 8), at=[(torch.randn(2, 4, size),) for size in (3, 9)], dynamic=[{2}],
        captures=BOTH, opsets=(11, 20),
    )
)  # fmt: skip
def test_a_size_fixed_by_a_kernel_after_another_has_fixed_it(run) -> None:
    """torch caches the first call, so the second would fix the size without a trace."""
    assert isinstance(run().model.graph.outputs[0].shape[2].value, str)


def test_sizes_that_the_trials_tie_have_no_name() -> None:
    """In a trial, two unknown sizes equal the first; the result has none of the names."""
    sizes = TypeInference()
    rows = sizes._named("n", 6)
    given = [sizes.unbacked.tensor(torch.float32, [None, 4]) for _ in range(2)]
    probe = SizeProbe(sizes.call, sizes.unbacked, {})
    fakes = [AbstractTensor(torch.float32, [rows, 4]), *given]
    with sizes.mode:
        made = probe.result(torch.ops.aten.cat.default, "aten::cat", [fakes[1:], 1], [None, None])
        both = probe.result(torch.ops.aten.cat.default, "aten::cat", [fakes, 1], [None, None])
    for result, columns in ((made, 8), (both, 12)):
        assert result.shape[1] == columns
        assert str(result.shape[0]) not in {str(fake.shape[0]) for fake in fakes}
