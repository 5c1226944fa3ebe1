"""Dynamic axes, failing captures, control flow, from `export` to ONNX Runtime."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from onnxexp import CaptureError
from tests.core.exporting import Two, X, Y, kinds, names, same, shape, valid
from tests.core.test_restricted_calls import Model
from tests.core.tiny import export

# Dynamic axes


@pytest.mark.parametrize(
    "given",
    [
        {"dynamic_shapes": {"x": {0: "batch"}, "y": {0: "batch"}}},
        {"dynamic_shapes": ({0: Dim("batch")}, {0: Dim("batch")})},
        {"dynamic_axes": {"x": {0: "batch"}, "y": {0: "batch"}}},
        {"dynamic_axes": {"x": [0], "y": [0]}},
        {"dynamic_axes": {"x": {0: "batch"}, "y": [0], "output": {0: "batch"}}},
    ],
)
@pytest.mark.parametrize("size", [1, 2])
def test_an_axis_asked_to_be_dynamic_is_dynamic(given: dict[str, Any], size: int) -> None:
    program = valid(export(Two(), (X[:size], Y[:size]), **given))
    for name in ("x", "y", "output"):
        assert isinstance(shape(program, name)[0], str)
    for rows in (1, 2, 5):
        x, y = torch.randn(rows, 3), torch.randn(rows, 3)
        same(program(x, y), x.relu() + y)


def test_input_names_are_keys_of_dynamic_axes_and_shapes() -> None:
    for option in ("dynamic_axes", "dynamic_shapes"):
        axes = {"left": {0: "rows"}, "right": {0: "rows"}}
        program = valid(export(Two(), (X, Y), input_names=["left", "right"], output_names=["sum"], **{option: axes}))
        assert names(program) == (["left", "right"], ["sum"])
        assert shape(program, "left") == shape(program, "sum") == ["rows", 3]


def test_an_axis_that_the_model_fixes_is_an_error_with_the_line() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(6)  # this line fixes it

    with pytest.raises(CaptureError, match=r"(?s)test_export_graphs.py.*this line fixes it"):
        export(Fixed(), (X,), dynamic_shapes={"x": {0: "batch"}})


def test_a_branch_on_values_is_refused_at_the_first_attempt() -> None:
    """Strict mode and other sizes would refuse it as well."""

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:  # depends on the data
                return x
            return -x

    with pytest.raises(CaptureError) as raised:
        export(Branches(), (X,), capture="export")
    message = str(raised.value)
    assert "torch.export (strict=False): " in message and "strict=True" not in message
    assert "test_export_graphs.py" in message
    assert "torch.cond" in message
    assert raised.value.__suppress_context__ or raised.value.__cause__ is None


# Control flow and regions


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.linear(x).relu(), lambda x: torch.sin(x) * 2, (x,))


@pytest.mark.parametrize("opset", [9, 13, 20])
def test_cond(opset: int) -> None:
    model = Conditional()
    program = valid(export(model, (X,), opset_version=opset, dynamic_shapes=({0: "batch"},)))
    assert "If" in kinds(program)
    with torch.no_grad():
        for x in (X.abs(), -X.abs(), torch.ones(5, 3), -torch.ones(1, 3)):
            same(program(x), model(x))


def test_nested_cond() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 10, lambda x: x * 2, lambda x: x * 3, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: -x, (x,))

    program = valid(export(forward, (X,)))
    for x in (torch.ones(2, 3), torch.ones(2, 3) * 5, -torch.ones(2, 3)):
        same(program(x), forward(x))


def test_while_loop() -> None:
    from torch._higher_order_ops import while_loop

    def forward(x: torch.Tensor, limit: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < limit, lambda i, x: (i + 1, x * 2 + i), (torch.zeros((), dtype=torch.int64), x))

    program = valid(export(forward, (X, torch.tensor(3)), dynamic_shapes=({0: "batch"}, None)))
    for limit in (0, 1, 5):
        x = torch.randn(limit + 1, 3)
        same(program(x, torch.tensor(limit)), tuple(forward(x, torch.tensor(limit))))


def test_scan_over_dynamic_time() -> None:
    from torch._higher_order_ops import scan

    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3) * 0.1)

        def forward(self, start: torch.Tensor, xs: torch.Tensor) -> Any:
            def combine(state: torch.Tensor, x: torch.Tensor) -> Any:
                state = torch.tanh(state @ self.weight + x)
                return state, state * 2

            return scan(combine, start, xs, dim=0)

    model = Running()
    start, xs = torch.zeros(2, 3), torch.randn(4, 2, 3)
    program = valid(export(model, (start, xs), dynamic_shapes=(None, {0: "time"})))
    assert "Scan" in kinds(program)
    with torch.no_grad():
        for time in (1, 4, 9):
            xs = torch.randn(time, 2, 3)
            same(program(start, xs), tuple(model(start, xs)))


def test_scan_around_cond() -> None:
    from torch._higher_order_ops import scan

    def forward(start: torch.Tensor, xs: torch.Tensor) -> Any:
        def combine(state: torch.Tensor, x: torch.Tensor) -> Any:
            state = torch.cond(x.sum() > 0, lambda s, x: s + x, lambda s, x: s * 1.0, (state, x))
            return state, state.sin()

        return scan(combine, start, xs, dim=0)

    start, xs = torch.zeros(3), torch.randn(6, 3)
    program = valid(export(forward, (start, xs)))
    same(program(start, xs), tuple(forward(start, xs)))


def test_a_region_under_autocast() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 3))

        def forward(self, x: torch.Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.float16):
                inner = x @ self.weight
            return inner.float() + 1, inner

    model = Mixed()
    program = valid(export(model, (X,)))
    with torch.no_grad():
        expected = model(X)
    result = program(X)
    assert result[1].dtype == torch.float16
    torch.testing.assert_close(result, expected, rtol=2e-3, atol=2e-3)


def test_regions_of_other_grad_modes() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x + 1
        with torch.enable_grad():
            y = y * 2
        return y.detach() + x

    same(valid(export(forward, (X,)))(X), forward(X))


def test_a_program_whose_passes_left_calls_without_types() -> None:
    captured = torch.export.export(Model(lambda x: torch.cat([x, x * 2])), (X,), dynamic_shapes=({0: Dim.DYNAMIC},))
    graph = captured.graph
    mul = next(node for node in graph.nodes if node.target is torch.ops.aten.mul.Tensor)
    with graph.inserting_after(mul):
        relu = graph.call_function(torch.ops.aten.relu.default, (mul,))
    mul.replace_all_uses_with(relu, delete_user_cb=lambda node: node is not relu)
    captured.graph_module.recompile()
    program = valid(export(captured, (X,)))
    for x in (X, torch.randn(7, *X.shape[1:])):
        same(program(x), torch.cat([x, (x * 2).relu()]))


def test_a_weight_that_is_used_transposed_too_is_stored_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(64, 32))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight @ self.weight.t()

    program = export(Tied(), (torch.randn(2, 64),))
    large = [value for value in program.model.graph.initializers.values() if value.const_value.size > 1000]
    assert [value.name for value in large] == ["weight"]
    assert program.verify().ok
