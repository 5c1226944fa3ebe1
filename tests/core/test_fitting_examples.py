"""Enlarged examples that the model refuses: sizes that fit, or the example as is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from onnxexp import CaptureError, export
from onnxexp._capture.example_inputs import enlarge
from onnxexp._capture.fitting_examples import fitting_example
from onnxexp._request.dynamic_shapes import read_dynamic

past = Dim("past", min=1, max=64)
CACHED: Any = {"x": {0: "b", 1: "t"}, "cache": {0: "b", 1: "p"}, "mask": {0: "b", 1: "t", 2: "all"}}
UNNAMED: Any = {name: dict.fromkeys(axes, Dim.DYNAMIC) for name, axes in CACHED.items()}


class Cached(torch.nn.Module):
    def forward(self, x: Tensor, cache: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        keys = torch.cat([cache, x], 1)
        return (x @ keys.transpose(1, 2)).masked_fill(~mask, 0.0), keys


def cached(batch: int, new: int, old: int) -> tuple[Tensor, ...]:
    return torch.randn(batch, new, 3), torch.randn(batch, old, 3), torch.rand(batch, new, old + new) > 0.3


def accepted(condition: Callable[..., bool], shapes: Any, wanted: Any) -> list[tuple[int, ...]] | None:
    """Return the shapes that fit a condition on the sizes."""

    def run(args: Any, kwargs: Any) -> None:
        if not condition(*(tuple(tensor.shape) for tensor in args)):
            raise CaptureError("these sizes do not fit")

    args = tuple(torch.ones(shape) for shape in shapes)
    spec = read_dynamic(lambda *xs: None, args, {}, dynamic_shapes={"xs": wanted})
    with pytest.raises(CaptureError):
        run(*enlarge(args, {}, spec))
    found = fitting_example(run, args, {}, spec)
    return None if found is None else [tuple(tensor.shape) for tensor in found[0]]


@pytest.mark.parametrize(
    ("condition", "shapes", "wanted", "expected"),
    [
        (lambda a, b, c: c[0] == a[0] + b[0], ((3,), (0,), (3,)), "abc", [(3,), (2,), (5,)]),
        (lambda a, b, c: c[0] == a[0] + b[0], ((1,), (0,), (1,)), "abc", [(2,), (2,), (4,)]),
        (lambda a, b, c: c[0] == a[0] * b[0], ((1,), (4,), (4,)), "abc", [(2,), (2,), (4,)]),
        (lambda a, b, c: a[0] == b[0] == c[0], ((1,), (1,), (1,)), (*"ab", Dim("c", min=4)), [(4,), (4,), (4,)]),
        (lambda a, b: b[0] == a[0] + 3, ((0,), (3,)), "ab", [(2,), (5,)]),
        (lambda a, b: a[0] + b[0] == 5, ((0,), (5,)), "ab", [(2,), (3,)]),
        (lambda a, b: b[0] == 2 * a[0] + 1, ((1,), (3,)), (past, "b"), [(2,), (5,)]),
        (lambda a: a[0] == 1, ((1,),), "a", None),
    ],
)
def test_sizes_that_fit(condition: Any, shapes: Any, wanted: Any, expected: Any) -> None:
    axes = tuple({0: dim} for dim in wanted)
    assert accepted(condition, shapes, axes) == expected


def test_an_example_that_fails_itself() -> None:
    with pytest.raises(CaptureError, match="do not fit"):
        accepted(lambda a: False, ((1,),), ({0: "a"},))


@pytest.mark.parametrize("shapes", [CACHED, UNNAMED], ids=["named", "unnamed"])
@pytest.mark.parametrize(("new", "old"), [(3, 0), (1, 0), (3, 1), (1, 1)])
@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_an_empty_cache_and_a_mask_over_all(capture: Any, new: int, old: int, shapes: Any) -> None:
    program = export(Cached(), cached(2, new, old), dynamic_shapes=shapes, capture=capture)
    for sizes in ((2, new, old), (3, 5, 4), (2, 2, 6)):
        inputs = cached(*sizes)
        torch.testing.assert_close(tuple(map(torch.as_tensor, program(*inputs))), Cached()(*inputs))


def test_the_error_is_the_models_own() -> None:
    x, cache, mask = cached(2, 3, 0)
    for capture in ("auto", "export", "trace"):
        with pytest.raises(CaptureError, match="the model itself fails on the example inputs: RuntimeError") as caught:
            export(Cached(), (x, cache, mask[:, :, :2]), dynamic_shapes=CACHED, capture=capture)
        assert "so the example was changed" not in str(caught.value)
        assert isinstance(caught.value.__cause__, RuntimeError)


class Repeats(torch.nn.Module):
    def forward(self, x: Tensor, repeats: Tensor) -> Tensor:
        return torch.repeat_interleave(x, repeats, dim=1)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_sizes_that_exclude_the_example_are_refused(capture: Any) -> None:
    message = "axis 0 of input repeats was asked .* the size of axis 1 of input x where it is not 1, as in the example; "
    with pytest.raises(CaptureError, match=message):
        export(
            Repeats(), (torch.ones(2, 3), torch.tensor([2])), dynamic_axes={"x": {1: "w"}, "repeats": {0: "r"}}, capture=capture
        )
    program = export(Repeats(), (torch.ones(2, 3), torch.tensor([2])), dynamic_axes={"x": {1: "w"}}, capture=capture)
    given = torch.randn(2, 5), torch.tensor([3])
    torch.testing.assert_close(program(*given), Repeats()(*given))
