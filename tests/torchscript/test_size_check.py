"""The second trace, which shows what a trace fixes on a dynamic axis."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import onnxexp
from onnxexp import CaptureError

from .running import exported

X = torch.randn(2, 5, 4)
AXES = ({0: "batch", 1: "length"},)


class Steps(nn.Module):
    """A loop in Python over the steps of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 3)
        states = []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            states.append(state)
        return torch.stack(states, 1)


def padded(x: Tensor) -> Tensor:
    missing = -index(x.shape[1]) % 8
    return nn.functional.pad(x, (0, 0, 0, missing)).sum(1) + missing


def half(x: Tensor) -> Tensor:
    return x[:, : index(x.shape[1]) // 2]


def scaled(x: Tensor) -> Tensor:
    return x / index(x.shape[1]) ** 0.5


def branch(x: Tensor) -> Tensor:
    return x.exp() if index(x.shape[1]) < 6 else x.cos()


def as_large(x: Tensor) -> Tensor:
    return x + 1 if x.shape[1] == 5 else x.flip(1)


def table(x: Tensor) -> Tensor:
    return x.sum(1) + torch.tensor(list(range(int(x.shape[1])))).sum()


def counted(x: Tensor) -> tuple[Tensor, int]:
    return x + 1, index(x.shape[1])


def listed(x: Tensor) -> list[Tensor]:
    return list(x.split(3, 1))


def pieces(x: Tensor) -> Tensor:
    return torch.cat(x.split(3, 1)[::-1], 1)


def value_and_loop(x: Tensor) -> Tensor:
    total = x.abs() if x.sum() > 0 or x.sum() <= 0 else x
    for step in range(x.shape[1]):
        total = total + x[:, step : step + 1]
    return total


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "what", "code"),
    [
        (Steps(), "the model runs aten::", "state = self.cell(x[:, step], state)"),
        (padded, "3 is 6 there, at File", "missing"),
        (half, "2 is 5 there, at File", "x[:, : index(x.shape[1]) // 2]"),
        (scaled, "2.23606", "index(x.shape[1]) ** 0.5"),
        (branch, "the model runs aten::exp, and aten::cos there, at File", "if index(x.shape[1]) < 6"),
        (as_large, "the model runs aten::add, and aten::flip there, at File", "if x.shape[1] == 5"),
        (table, "a tensor of shape (5,) is a tensor of shape (10,) there, at File", "torch.tensor(list(range("),
        (counted, "the model returns the constant 5, which is 10 there", ""),
        (listed, "the model returns 2 values, and 4 there", ""),
        (pieces, "the model makes a list of 2 values, and of 4 there", "torch.cat(x.split(3, 1)[::-1]"),
    ],
)
def test_what_a_trace_fixes_is_an_error(model: Callable[..., Any], what: str, code: str) -> None:
    with pytest.raises(CaptureError) as raised:
        onnxexp.export(model, (X,), capture="trace", dynamic_shapes=AXES)
    text = str(raised.value)
    assert (
        what in text
        and code in text
        and "a second trace, of x: 4 × 10 × 4, differs; to fix this, compute it from x.shape" in text
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("length", range(5, 20))
@pytest.mark.parametrize(
    "number", [lambda n: int(n / 8 + 0.99), lambda n: -(-index(n) // 8) * 8, lambda n: index(n) % 2, lambda n: index(n) // 2]
)
def test_a_number_of_windows_is_an_error(number: Callable[[Any], int], length: int) -> None:
    model = lambda x: nn.functional.pad(x, (0, number(x.shape[0])))  # noqa: E731
    with pytest.raises(CaptureError, match="a second trace"):
        onnxexp.export(model, (torch.randn(length),), capture="trace", dynamic_shapes=({0: "n"},))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [Steps(), value_and_loop])
def test_what_torch_export_refuses_is_checked_too(model: Callable[..., Any]) -> None:
    with pytest.raises(CaptureError, match="a second trace, of x: 4 × 10 × 4, differs"):
        onnxexp.export(model, (X,), dynamic_shapes=AXES)


def by_order(x: Tensor, y: Tensor) -> Tensor:
    return x.sum() + y.sum() * 2 if x.shape[0] > y.shape[0] else x.sum() * 2 + y.sum()


def longer_first(x: Tensor, y: Tensor) -> Tensor:
    longest, _ = sorted([x.shape[0], y.shape[0]], reverse=True)
    return torch.arange(longest) + x.sum() + y.sum()


def padded_to_mask(x: Tensor, past: Tensor, mask: Tensor) -> Tensor:
    keys = torch.cat([past, x])
    return (keys * 2 if x.shape[0] > past.shape[0] else keys) * mask


@pytest.mark.parametrize("lengths", [(3, 6), (6, 3), (6, 6), (2, 3), (3, 2)])
@pytest.mark.parametrize("model", [by_order, longer_first, padded_to_mask])
def test_sizes_in_the_opposite_order_are_compared(model: Callable[..., Any], lengths: tuple[int, int]) -> None:
    def inputs(one: int, other: int) -> tuple[Tensor, ...]:
        return tuple(map(torch.ones, (one, other, one + other)[: model.__code__.co_argcount]))

    shapes = tuple({0: name} for name, _ in zip("nmk", inputs(*lengths), strict=False))
    with pytest.warns(UserWarning, match="right only where"):
        program = onnxexp.export(model, inputs(*lengths), capture="trace", dynamic_shapes=shapes)
    same = inputs(*(2 * length for length in lengths))
    torch.testing.assert_close(program(*same), model(*same))
    for other in [inputs(*lengths[::-1])] if lengths[0] != lengths[1] else [inputs(7, 6), inputs(6, 7)]:
        with pytest.raises(onnxexp.OnnxExporterError, match="right only where"):
            program(*other)


def even(x: Tensor) -> Tensor:
    return x * 2 if x.shape[1] % 2 == 0 else x + 1


def few(x: Tensor) -> Tensor:
    return x * 2 if x.shape[1] <= 4 else x + 1


def counted_down(x: Tensor) -> Tensor:
    if x.shape[1] % 3:
        x = x + 1
    return x * 2 if not x.shape[1] < 2 and x.shape[0] != 7 else x


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(
    ("model", "conditions", "within", "outside"),
    [
        (even, ["length % 2 == 0"], [0, 2, 8], [1, 3, 7]),
        (few, ["length <= 4"], [0, 1, 3], [5, 8]),
        (counted_down, ["batch != 7"], [2, 4, 5, 8], [3, 6]),
    ],
)
def test_a_branch_on_sizes_is_stated(
    model: Callable[..., Any], conditions: list[str], within: list[int], outside: list[int], capture: str
) -> None:
    """Check that both frontends follow one rule."""
    with pytest.warns(UserWarning, match="right only where") as told:
        program = onnxexp.export(model, (torch.ones(2, 4),), capture=capture, dynamic_shapes=AXES)
    assert all(condition in str(told[0].message) for condition in conditions)
    for size in within:
        x = torch.randn(3, size)
        torch.testing.assert_close(program(x), model(x))
    for size in outside:
        with pytest.raises(onnxexp.OnnxExporterError, match="right only where"):
            program(torch.randn(3, size))


def by_number_found(x: Tensor) -> Tensor:
    return x + 1 if x[x > 0].shape[0] > 2 else x - 1


@pytest.mark.filterwarnings("ignore")
def test_a_branch_on_a_size_that_depends_on_values_is_an_error() -> None:
    for capture in ("export", "trace"):
        with pytest.raises(CaptureError):
            onnxexp.export(by_number_found, (torch.ones(1, 2),), capture=capture, dynamic_shapes=({1: "length"},))


def repeated(x: Tensor, number: int) -> Tensor:
    for _ in range(number):
        x = x + 1
    return x


def looked_up(x: Tensor, number: float) -> Tensor:
    return x * 2 if number > 0.6 else x


def scaled_by(x: Tensor, number: float) -> Tensor:
    return x.reshape(-1) * number


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model", "number"), [(repeated, 3), (repeated, 0), (looked_up, 0.5), (looked_up, True)])
@pytest.mark.parametrize("capture", ["auto", "trace"])
def test_what_a_trace_fixes_of_a_number_is_an_error(model: Callable[..., Any], number: float, capture: str) -> None:
    with pytest.raises(
        CaptureError, match="fixes what depends on a dynamic number; a second|input number .n. was asked to be dynamic"
    ):
        exported(model, (X, number), dynamic_shapes=(None, "n"), capture=capture)
    exported(model, (X, number), dynamic_shapes=(None, "n"), capture="trace", check_sizes=False)
    exported(model, (X, number), capture="trace")


@pytest.mark.parametrize("shapes", [(None, "n"), (*AXES, "n")])
@pytest.mark.parametrize("number", [3, 0.5, -2, 0.0])
def test_a_number_that_stays_a_number_is_no_difference(shapes: Any, number: float) -> None:
    program = exported(scaled_by, (X, number), dynamic_shapes=shapes, capture="trace")
    program.verify((X, number * 3 + 1))


@pytest.mark.parametrize("model", [Steps(), padded, half, scaled, branch, table])
def test_the_check_can_be_switched_off(model: Callable[..., Any]) -> None:
    program = exported(model, (X,), capture="trace", dynamic_shapes=AXES, check_sizes=False)
    torch.testing.assert_close(program(X), model(X))


class Attending(nn.Module):
    """Sizes, a cache of its own, random numbers, a buffer: none is fixed."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.positions: Tensor | None = None
        self.calls: list[int] = []
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.positions is None or self.positions.shape[0] < x.shape[1]:
            self.positions = torch.arange(x.shape[1])
        self.calls.append(1)
        self.seen += 1
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = self.attention(x, x, x, attn_mask=mask)[0]
        return nn.functional.dropout(y.reshape(x.shape[0], -1, 2, 2), 0.0) + self.positions[: x.shape[1], None, None]


def sizes_in_numbers(x: Tensor) -> Tensor:
    n = x.shape[1]
    y = x.view(x.shape[0], n * 2, -1)[:, : n // 2 + 1]
    return torch.cat([y, y.new_full((x.shape[0], n, 2), 2.0)], 1) / n


def first_piece(x: Tensor) -> Tensor:
    return x.split(3, 1)[0] + 1


@pytest.mark.parametrize("make", [Attending, lambda: sizes_in_numbers, lambda: first_piece])
def test_sizes_that_stay_sizes_are_no_difference(make: Callable[[], Callable[..., Any]]) -> None:
    model = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        program = onnxexp.export(model, (X,), capture="trace", dynamic_shapes=AXES)
    if isinstance(model, Attending):
        assert model.positions is None and model.calls == [] and model.seen == 0
    for batch, length in [(2, 5), (3, 7), (1, 9)]:
        x = torch.randn(batch, length, 4)
        torch.testing.assert_close(program(x), model(x))


def by_chance(x: Tensor) -> Tensor:
    x = x * random.random()
    return x.exp() if random.random() > 2 else x + torch.from_numpy(torch.rand(4).numpy())


def drawn_in_number(x: Tensor) -> Tensor:
    return x + torch.rand(x.shape).max().item()


@pytest.mark.parametrize("model", [by_chance, drawn_in_number])
def test_random_constants_are_no_difference(model: Callable[[Tensor], Tensor]) -> None:
    state = torch.get_rng_state(), random.getstate()
    exported(model, (X,), capture="trace", dynamic_shapes=AXES)
    torch.set_rng_state(state[0])
    random.setstate(state[1])
    exported(model, (X,), capture="trace", dynamic_shapes=AXES, check_sizes=False)


@functools.lru_cache
def cached(width: int) -> Tensor:
    return torch.arange(width) * 2.0


def test_a_cache_outside_of_the_model_is_no_difference() -> None:
    cached.cache_clear()
    model = lambda x: x + cached(4)  # noqa: E731
    program = exported(model, (X,), capture="trace", dynamic_shapes=AXES)
    cached.cache_clear()
    torch.testing.assert_close(program(X), model(X))


class Positions(nn.Module):
    """A table that ends at the example's length."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(length, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table(torch.arange(x.shape[1]))


def only_even(x: Tensor) -> Tensor:
    return x.view(x.shape[0], 2, x.shape[1] // 2, 4).sum(1)


def equal(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def past_and_mask(past: Tensor, mask: Tensor) -> Tensor:
    return torch.cat([past, past[:, :1]], 1) * mask[:, :, None]


def padded_mask(past: Tensor, new: Tensor, mask: Tensor) -> Tensor:
    keys = torch.cat([past, new], 1)
    missing = keys.shape[1] - mask.shape[1]
    return keys * (nn.functional.pad(mask, (0, missing)) if missing > 0 else mask)[:, :, None]


@pytest.mark.filterwarnings("ignore:Tracing fixes")
@pytest.mark.parametrize("new", [{1: "new"}, {}])
def test_a_size_that_is_the_sum_of_others_stays_one(new: dict[int, str]) -> None:
    length = 4 if new else 1
    inputs = torch.randn(2, 6, 4), torch.randn(2, length, 4), torch.randn(2, 6 + length)
    exported(padded_mask, inputs, capture="trace", dynamic_shapes=({1: "past"}, new, {1: "total"}))


@pytest.mark.parametrize(
    ("model", "shapes", "dynamic"),
    [
        (Positions(20), [(2, 20, 4)], ({1: "length"},)),
        (Positions(10), [(2, 10, 4)], ({1: "length"},)),
        (only_even, [(2, 6, 4)], ({1: "length"},)),
        (only_even, [(2, 30, 4)], ({1: "length"},)),
        (equal, [(2, 5), (2, 5)], ({1: "a"}, {1: "b"})),
        (past_and_mask, [(2, 5, 4), (2, 6)], ({1: "past"}, {1: "total"})),
        (Steps, [(2, 6, 4)], ({1: 2 * Dim("half", min=2, max=5)},)),
        (Steps, [(2, 6, 4)], ({1: Dim("n", min=6, max=7)},)),
        (Steps, [(2, 6, 4)], ({1: Dim.DYNAMIC(min=4, max=6)},)),
    ],
)
def test_sizes_at_which_a_model_runs_are_found(model: Any, shapes: Sequence[tuple[int, ...]], dynamic: Any) -> None:
    inputs = tuple(torch.randn(shape) for shape in shapes)
    if model is Steps:
        with pytest.raises(CaptureError, match="the model runs aten::"):
            exported(Steps(), inputs, capture="trace", dynamic_shapes=dynamic)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxexp.export(model, inputs, capture="trace", dynamic_shapes=dynamic)


def only_five(x: Tensor) -> Tensor:
    if x.shape[1] != 5:
        raise ValueError("five, please")
    return x + 1


def test_a_model_that_runs_at_no_other_size_is_told() -> None:
    with pytest.warns(UserWarning, match=r"could not be compared .* \(x: 2 × \d+ × 4\) .*ValueError: five, please, at File"):
        program = onnxexp.export(only_five, (X,), capture="trace", dynamic_shapes=({1: "length"},))
    torch.testing.assert_close(program(X), only_five(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxexp.export(only_five, (X,), capture="trace", dynamic_shapes=({1: "length"},), check_sizes=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(2, 16), (2, 128), (9,), (10,), (9, 10), (2, 3, 224, 224), (2, 24, 32)])
def test_a_second_trace_has_no_more_elements(shape: tuple[int, ...]) -> None:
    seen: list[list[int]] = []

    def model(x: Tensor) -> Tensor:
        seen.append([int(size) for size in x.shape])
        return x + 1

    axes = {axis: f"axis{axis}" for axis in range(len(shape))}
    onnxexp.export(model, (torch.randn(shape),), capture="trace", dynamic_shapes=(axes,))
    one, other, *opposite = seen  # the third for models that read sizes as numbers, with more than one size
    assert len(opposite) == (len(shape) > 1)
    assert all(torch.Size(each).numel() <= torch.Size(one).numel() and set(each).isdisjoint(other) for each in opposite)
    assert torch.Size(other).numel() <= torch.Size(one).numel() and len({*one, *other}) == len({*one}) + len(other)
    for before, after in zip(one, other, strict=True):
        assert after > 1 and before // 2 != after // 2 and -before // 2 != -after // 2
        assert before <= 4 or (-before // 8 != -after // 8 and before % 2 != after % 2)


class Layers(nn.Module):
    """Layers and attention, and what `rest` makes of their result."""

    def __init__(self, rest: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.conv, self.rest = nn.Linear(4, 6), nn.Conv1d(3, 5, 2, padding=1), rest

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(self.linear(x))[:, None]
        return self.rest(nn.functional.scaled_dot_product_attention(y, y, y))


zeros: list[bool] = []


def noted_values(y: Tensor) -> Tensor:
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    zeros.append(not y.any())
    torch._C._set_tracing_state(state)
    return y[torch.arange(y.shape[0])] + 1 if y.shape[0] > 1 else y


@pytest.mark.parametrize("batch", [2, 10])
def test_layers_are_not_computed_at_other_sizes(batch: int) -> None:
    zeros.clear()
    exported(Layers(noted_values), (torch.randn(batch, 3, 4),), capture="trace", dynamic_shapes=({0: "batch"},))
    assert zeros == [False, True]


def read_in_python(y: Tensor) -> Tensor:
    return y.exp() if y.flatten().tolist() and y.abs().sum() > y.shape[0] * 1e-9 else y.cos()


def shape_of_values(y: Tensor) -> Tensor:
    return y.flatten()[(y != 0).flatten()]


def half_of_batch(y: Tensor) -> Tensor:
    return y[: index(y.shape[0]) // 2]


def no_division(y: Tensor) -> Tensor:
    return y * (1 / float(y.abs().max()) + y.shape[0] * 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("rest", "found"),
    [(read_in_python, ""), (shape_of_values, ""), (half_of_batch, "1 is 2 there"), (torch.relu_, ""), (no_division, "")],
)
def test_what_was_not_computed_decides_nothing(rest: Callable[[Tensor], Tensor], found: str) -> None:
    torch.manual_seed(19)  # with its weights, no_division gives a number that is rounded in another way at another size
    model, x = Layers(rest), torch.cat([torch.ones(1, 3, 4), torch.zeros(1, 3, 4)])
    options: Any = {"capture": "trace", "dynamic_shapes": ({0: "batch"},)}
    if found:
        with pytest.raises(CaptureError, match=found):
            onnxexp.export(model, (x,), **options)
    else:
        onnxexp.export(model, (x,), **options)


runs: list[tuple[int, ...]] = []


def noted(x: Tensor) -> Tensor:
    runs.append(tuple(x.shape))
    return x + 1


def test_static_sizes_are_traced_once() -> None:
    runs.clear()
    exported(noted, (X,), capture="trace")
    assert len(runs) == 1
    exported(noted, (X,), capture="trace", dynamic_shapes=AXES)
    assert len(runs) == 3
    one, other = ([int(size) for size in shape] for shape in runs[1:])
    assert one[0] != other[0] and one[1] != other[1] and other[0] != other[1] and one[2] == other[2]


class Written(nn.Module):
    """Writes into a tensor that is no buffer, and into its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.ones(4)
        self.names = ["one"]

    def forward(self, x: Tensor) -> Tensor:
        self.table.add_(1)
        self.names.append("two")
        self.last = x
        return self.table + x


@pytest.mark.parametrize("dynamic", [None, AXES])
def test_a_trace_leaves_the_model_as_it_was(dynamic: Any) -> None:
    model = Written()
    program = exported(model, (X,), capture="trace", dynamic_shapes=dynamic)
    assert model.names == ["one"] and not hasattr(model, "last") and torch.equal(model.table, torch.ones(4))
    torch.testing.assert_close(program(X), Written()(X))


@pytest.mark.parametrize("length", [13, 18])
def test_fewer_pieces_at_smaller_sizes_are_no_refusal(length: int) -> None:
    """At sizes in the opposite order, the axis has length 4: chunk makes two pieces."""
    dynamic = ({0: "n", 1: "m"},)
    with pytest.warns(UserWarning, match="gives as many pieces as for the example, 3"):
        program = onnxexp.export(lambda x: x.chunk(3, 1), (torch.randn(1, length),), capture="trace", dynamic_shapes=dynamic)
    program.verify(torch.randn(2, 15))


def test_a_number_of_pieces_that_is_a_size_is_refused() -> None:
    with pytest.raises(CaptureError):
        onnxexp.export(lambda x: x.chunk(x.size(0), 1), (torch.randn(3, 18),), capture="trace", dynamic_shapes=({0: "n"},))
