"""`guard_warnings`: a dynamic axis stays dynamic, or a warning has the line."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim
from torch.nn import functional

import onnxexp
from onnxexp._errors import CaptureError
from onnxexp._torch_export.guard_warnings import record_guard_sources

X = torch.ones(8, 4)
TABLE = torch.ones(1024, 4)


def told(model: Callable[..., Any], *args: Any, shapes: Any = ({0: "n"},)) -> list[str]:
    """Return the conditions that the export warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        onnxexp.export(model, args or (X,), capture="export", dynamic_shapes=shapes)
    assert {Path(warning.filename) for warning in caught} <= {Path(__file__)}
    texts = [str(warning.message) for warning in caught]
    assert all(text.startswith("the exported model is right only where ") and "Dim.DYNAMIC(min=" in text for text in texts)
    assert len(texts) <= 1
    return [found for text in texts for found in re.findall(r'(?:where|\);) (.*?) \(File "[^"]*", line \d+: ', text)]


def more_than(size: int) -> Callable[..., torch.Tensor]:
    return lambda x: x * 2 if x.shape[0] > size else x * 3


def even(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] % 2 == 0 else x * 3


def both(x: torch.Tensor) -> torch.Tensor:
    return even(more_than(5)(x))


def looser_first(x: torch.Tensor) -> torch.Tensor:
    return more_than(5)(more_than(3)(x))


def tighter_first(x: torch.Tensor) -> torch.Tensor:
    return more_than(3)(more_than(5)(x))


def in_a_module(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.Sequential(Doubling(), torch.nn.ReLU())(x)


class Doubling(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return more_than(5)(x)


@pytest.mark.parametrize(
    ("model", "conditions"),
    [
        (more_than(5), ["n > 5"]),
        (more_than(1), ["n > 1"]),
        (lambda x: x * 2 if x.shape[0] == x[:, :1].shape[1] else x, ["n != 1"]),
        (lambda x: x * 2 if x.shape[0] != 1 else x, ["n != 1"]),
        (lambda x: x * 2 if max(x.shape[0], 1) == 1 else x, ["n != 1"]),
        (lambda x: x * 2 if min(x.shape[0], 2) == 2 else x, ["min(2, n) == 2"]),
        (lambda x: x * 2 if 1 < x.shape[0] != 1 else x, ["n > 1"]),
        (lambda x: x * 2 if x.numel() > 20 else x, ["4*n > 20"]),
        (even, ["n % 2 == 0"]),
        (both, ["n > 5", "n % 2 == 0"]),
        (looser_first, ["n > 3", "n > 5"]),
        (tighter_first, ["n > 5"]),
        (in_a_module, ["n > 5"]),
        (lambda x: x * 2 if x.shape[0] < 2000 else x, ["n < 2000"]),
        (lambda x: x * 2 if x.shape[0] / 2 > 3 else x, ["n/2 > 3.0"]),
        (lambda x: x * 2 if max(x.shape[0], x.shape[1]) > 7 else x, ["max(4, n) > 7"]),
        (lambda x: x * 2 if 3 < x.shape[0] < 9 else x, ["n > 3", "n < 9"]),
        (lambda x: x[:5], ["n >= 5"]),
        (lambda x: x[:-5], ["n >= 5"]),
        (lambda x: x[:512], []),
        (lambda x: x[-512:], []),
        (lambda x: x.chunk(2), ["n != 1"]),
        (lambda x: x.squeeze() + 1, ["n != 1"]),
        (lambda x: x[2:].squeeze(0) + 1, ["n - 2 != 1"]),
        (lambda x: x[x > 0].squeeze() + 1, ["dim_0 != 1"]),
        (lambda x: torch.cat(x.chunk(3)[::-1]), ["(n + ((n + 2)//3) - 1)//((n + 2)//3) == 3"]),
    ],
)
def test_what_the_example_decided_is_told(model: Callable[..., Any], conditions: list[str]) -> None:
    assert told(model) == conditions


@pytest.mark.parametrize(
    ("decides", "condition"),
    [
        (lambda n: n**2 > 30, "n**2 > 30"),
        (lambda n: 2**n > 100, "PowByNatural(2, n) > 100"),
        (lambda n: n**0.5 > 2, "FloatPow(n, 0.5) > 2.0"),
        (lambda n: n**-1 > 0.1, "FloatPow(n, -1.0) > 0.1"),
        (lambda n: n & 8, "BitwiseFn_bitwise_and(n, 8) != 0"),
        (lambda n: n >> 1 > 3, "n//2 > 3"),
        (lambda n: n // (n - 4) > 1, "n//(n - 4) > 1"),
        (lambda n: (n - 5) % 3 == 0, "(n - 5) % 3 == 0"),
        (lambda n: round(n * 0.35, 1) > 2, "RoundDecimal(0.35*n, 1) > 2.0"),
        (lambda n: math.floor(n * 0.3) != 3, "FloorToInt(0.3*n) != 3"),
        (lambda n: math.sqrt(n - 5) > 1.5, "OpaqueUnaryFn_sqrt(n - 5) > 1.5"),
        (lambda n: math.log2(n) >= 3, "OpaqueUnaryFn_log2(n) >= 3.0"),
        (lambda n: n * n >= n, None),
    ],
)
def test_no_condition_fails_the_export(decides: Callable[[Any], Any], condition: str | None) -> None:
    """Some conditions cannot be computed at every size; None stands for a true one."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if decides(x.shape[0]) else x

    assert told(model) == ([condition] if condition else [])


@pytest.mark.parametrize(("bound", "conditions"), [(1, ["k > 1"]), (-5, ["k > -5"]), (-1000, [])])
def test_numbers_may_be_negative(bound: int, conditions: list[str]) -> None:
    """Numbers far from zero are not tried."""

    def model(x: torch.Tensor, k: int) -> torch.Tensor:
        return x * k if k > bound else x

    assert told(model, X, 5, shapes=(None, "k")) == conditions


def test_parts_of_conditions_read_as_python_writes_them() -> None:
    with pytest.warns(UserWarning, match="right only where k >= 0 and k <= n "):
        onnxexp.export(lambda x, k: x[:k], (X, 5), capture="export", dynamic_shapes=({0: "n"}, "k"))


def test_a_static_export_keeps_nothing_to_tell() -> None:
    assert told(more_than(5), shapes=None) == []


def test_a_condition_on_a_float() -> None:
    """torch.export makes such a condition in strict mode."""

    def rooted(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if math.sqrt(x.shape[0]) > 2.5 else x

    with pytest.warns(UserWarning, match=r"right only where .*n.* > 2\.5 \(File .*: return x \* 2 if math\.sqrt"):
        onnxexp.export(rooted, (X,), capture="export", dynamic_shapes=({0: "n"},))


def test_the_line_is_the_users() -> None:
    with pytest.warns(UserWarning, match="right only where n % 2 == 0") as caught:
        onnxexp.export(even, (X,), capture="export", dynamic_shapes=({0: "n"},))
    line = even.__code__.co_firstlineno + 1
    assert f'(File "{__file__}", line {line}: return x * 2 if x.shape[0] % 2 == 0 else x * 3)' in str(caught[0].message)


def test_the_line_of_a_slice_is_the_users() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        return x[:5] * 2

    with pytest.warns(UserWarning, match="right only where n >= 5") as caught:
        onnxexp.export(first, (X,), capture="export", dynamic_shapes=({0: "n"},))
    assert f'"{__file__}", line {first.__code__.co_firstlineno + 1}: return x[:5] * 2)' in str(caught[0].message)


def same_size(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] == y.shape[0] else y


def longer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] > y.shape[0] else y


def no_longer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] <= y.shape[0] else y


def first_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    found = y[: x.shape[0]]
    return found + torch.arange(found.shape[0])[:, None]


def rows_of_a_table(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return y.new_ones(9, 4).cumsum(0)[: x.shape[0]] + x


@pytest.mark.parametrize(
    ("model", "size", "shapes", "conditions"),
    [
        (same_size, 8, ({0: "n"}, {0: "m"}), ["n == m"]),
        (same_size, 8, ({0: "n"}, {0: Dim.DYNAMIC}), ["n == y_dim_0"]),
        (same_size, 8, ({0: "n"}, {0: "n"}), []),
        (longer, 6, ({0: "n"}, {0: "m"}), ["n > m"]),
        (no_longer, 9, ({0: "n"}, {0: "m"}), ["n <= m"]),
        (no_longer, 8, ({0: "n"}, {0: "m"}), []),  # made to fit, as a mask for the tokens
        (torch.add, 8, ({0: "n"}, {0: "m"}), []),
        (first_of, 9, ({0: "n"}, {0: "m"}), ["n <= m"]),
        (first_of, 6, ({0: "n"}, {0: "m"}), []),
        (first_of, 8, ({0: "n"}, {0: "m"}), []),
        (first_of, 9, ({0: "n"}, {0: 9}), ["n <= 9"]),
        (rows_of_a_table, 9, ({0: "n"}, {0: 9}), []),
    ],
)
def test_two_axes(model: Callable[..., Any], size: int, shapes: Any, conditions: list[str]) -> None:
    assert told(model, X, torch.ones(size, 4), shapes=shapes) == conditions


def test_a_call_with_a_slice_beyond_its_axis_is_refused() -> None:
    program = onnxexp.export(first_of, (X, torch.ones(8, 4)), capture="export", dynamic_shapes=({0: "n"}, {0: "m"}))
    torch.testing.assert_close(program(X[:3], torch.ones(8, 4)), first_of(X[:3], torch.ones(8, 4)))
    with pytest.raises(onnxexp.OnnxExporterError, match="right only where n <= m"):
        program(X, torch.ones(7, 4))
    one_size = onnxexp.export(first_of, (X, torch.ones(8, 4)), capture="export", dynamic_shapes=({0: "n"}, {0: "n"}))
    assert "onnxexp.restrictions" not in one_size.model.metadata_props


def test_a_branch_at_size_1_is_refused_there() -> None:
    with pytest.warns(UserWarning, match="right only where n != 1 "):
        program = onnxexp.export(same_size, (torch.ones(1, 4), X), capture="export", dynamic_shapes=({}, {0: "n"}))
    with pytest.raises(onnxexp.OnnxExporterError, match="right only where n != 1"):
        program(torch.ones(1, 4), torch.ones(1, 4))


def checked(x: torch.Tensor) -> torch.Tensor:
    torch._check(x.shape[0] > 5)  # type: ignore[no-untyped-call]
    return x * 2


def asserted(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] > 5
    return x * 2


def refusing(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] <= 5:
        raise ValueError("too short")
    return x * 2


def windows_and_back(x: torch.Tensor) -> torch.Tensor:
    """Split an image into windows and join them, with the number of images from theirs, as Swin does."""
    n, h, w, c = x.shape
    windows = x.view(n, h // 4, 4, w // 4, 4, c).transpose(2, 3).reshape(-1, 16, c) * 2
    images = int(windows.shape[0] / (h * w / 4 / 4))
    whole = windows.view(images, h // 4, w // 4, 4, 4, -1).transpose(2, 3).reshape(images, h, w, -1)
    return whole + x if images == n else whole


def a_branch_on_windows(x: torch.Tensor) -> torch.Tensor:
    y = x.view(1, x.shape[1] // 4, 4, -1).sum(2)
    return y * 2 if x.shape[1] % 8 == 0 else y


def padded_to_windows(x):
    """Pad to whole windows, so that the view after it fits at any size: the branch counts."""
    if x.shape[1] % 8:
        x = functional.pad(x, (0, 8 - x.shape[1] % 8))
    return x.view(x.shape[0], -1, 8).mean(2)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_branch_before_the_view_that_it_makes_fit_is_told(capture: str) -> None:
    with pytest.warns(UserWarning, match=r"right only where t % 8 == 0"):
        program = onnxexp.export(padded_to_windows, (torch.rand(2, 24),), capture=capture, dynamic_shapes=({0: "n", 1: "t"},))
    metadata = {entry.key: entry.value for entry in program.model_proto.metadata_props}
    assert metadata["onnxexp.restrictions"] == "t % 8 == 0"


def test_a_condition_that_holds_wherever_the_views_fit_is_not_told() -> None:
    image, axes = torch.rand(1, 8, 12, 3), ({1: "h", 2: "w"},)
    assert told(windows_and_back, image, shapes=axes) == []
    program = onnxexp.export(windows_and_back, (image,), capture="export", dynamic_shapes=axes)
    for size in [(4, 4), (16, 4), (28, 40)]:
        program.verify((torch.rand(1, *size, 3),))
    assert told(a_branch_on_windows, image, shapes=axes) == ["h % 8 == 0"]


@pytest.mark.parametrize(
    "model",
    [
        torch.nn.Linear(4, 3),
        torch.nn.Sequential(torch.nn.Unflatten(1, (1, 2, 2)), torch.nn.Conv2d(1, 3, 2), torch.nn.BatchNorm2d(3)),
        torch.nn.LSTM(4, 3),
        torch.nn.TransformerEncoderLayer(4, 2, 8),
        checked,
        asserted,
        refusing,
        lambda x: x.reshape(2, -1),
        lambda x: x.tensor_split(3),
        lambda x: x.tensor_split((2, 5)),
        lambda x: x[1:] - x[:-1],
        lambda x: x + TABLE[: x.shape[0]],
        lambda x: x[: min(x.shape[0], 5)],
        lambda x: functional.pad(x, (0, 0, 3, 3), "constant"),
        lambda x: functional.interpolate(x[None], scale_factor=2.0),
        lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
        lambda x: torch.cat([x, x]) + torch.ones(2 * x.shape[0], 1),
        lambda x: functional.max_unpool1d(x.t()[None], torch.arange(8).expand(1, 4, 8)[..., : x.shape[0]], 2, output_size=(17,)),
    ],
)
def test_what_holds_at_every_size_or_is_stated_is_not_told(model: Callable[..., Any]) -> None:
    assert told(model) == []


@pytest.mark.parametrize(
    ("dim", "conditions"),
    [
        (Dim.DYNAMIC(min=6), []),
        (Dim("n", min=6), []),
        (Dim.DYNAMIC(max=40), ["x_dim_0 > 5"]),
        (Dim.AUTO, ["x_dim_0 > 5"]),
        (None, []),
    ],
)
def test_the_range_is_the_users(dim: Any, conditions: list[str]) -> None:
    assert told(more_than(5), shapes=({0: dim},)) == conditions


def pooled(x: torch.Tensor) -> torch.Tensor:
    return functional.avg_pool1d(x[None], x.shape[1] // 4)


def fixed(model: Callable[..., Any], dim: Any, size: int, capture: str) -> str:
    """Return the code of the line that the error names."""
    with pytest.raises(CaptureError, match="fixes a number that depends on a dynamic size: .*leave the axis out") as caught:
        onnxexp.export(model, (torch.randn(2, size),), capture=capture, dynamic_shapes=({0: "b", 1: dim},))
    found = re.search(r' == [0-9.]+ \(File "([^"]*)", line \d+: (.*?)\)\.', str(caught.value))
    assert found is not None and found[1] == __file__
    return found[2]


@pytest.mark.parametrize(
    ("dim", "size", "capture"), [("n", 8, "auto"), (Dim.DYNAMIC, 40, "export"), (Dim.AUTO, 40, "export"), ("n", 4, "export")]
)
def test_a_fixed_number_is_an_error_for_each_request(dim: Any, size: int, capture: str) -> None:
    assert fixed(pooled, dim, size, capture) == "return functional.avg_pool1d(x[None], x.shape[1] // 4)"


@pytest.mark.parametrize(
    "model",
    [
        lambda x: functional.max_pool1d(x[None], x.shape[1] // 4),
        lambda x: functional.avg_pool2d(x[None, None], (1, x.shape[1] // 2)),
        lambda x: functional.lp_pool1d(x[None], 2, x.shape[1] // 4),
        lambda x: torch.histc(x, bins=x.shape[1] // 4, min=-3.0, max=3.0),
        lambda x: torch.diag_embed(x, x.shape[1] // 8),
        lambda x: x * float(np.sin(x.shape[1] // 4)),
        lambda x: torch.stack([x[:, step] for step in range(x.shape[1] // 4)]),
    ],
)
def test_a_number_fixed_at_the_example_is_an_error(model: Callable[..., Any]) -> None:
    assert fixed(model, "n", 40, "auto").startswith("lambda x: ")


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x[:, : int(x.shape[1] * 0.5)],
        lambda x: torch.ones(int(x.shape[1] / 3)),
        lambda x: functional.interpolate(x[None], size=int(x.shape[1] * 1.5)),
        lambda x: functional.adaptive_avg_pool2d(x[None], (1, x.shape[1] // 2)),
    ],
)
def test_a_number_that_strict_mode_keeps_is_no_error(model: Callable[..., Any]) -> None:
    program = onnxexp.export(model, (torch.randn(2, 40),), capture="export", dynamic_shapes=({0: "b", 1: "n"},))
    for shape in ((2, 40), (3, 44), (1, 13), (1, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


def test_torch_is_as_it_was_after_a_capture() -> None:
    shapes = torch.fx.experimental.symbolic_shapes.ShapeEnv
    before = shapes._get_stack_summary
    with record_guard_sources():
        assert shapes._get_stack_summary is not before
    assert shapes._get_stack_summary is before
