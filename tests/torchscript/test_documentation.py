"""torch.onnx's documented examples of tracing and scripting, as written there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from .running import OPSETS, SEQUENCES, exported


class LoopModel(torch.nn.Module):
    def forward(self, x, y):
        for i in range(y):
            x = x + i
        return x


@torch.jit.script
def loop(x, y):
    for i in range(int(y)):
        x = x + i
    return x


class LoopModel2(torch.nn.Module):
    def forward(self, x, y):
        return loop(x, y)


dummy_input = torch.ones(2, 3, dtype=torch.long)
loop_count = torch.tensor(5, dtype=torch.long)


def operators(program) -> list[str]:
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("opset", OPSETS)
def test_a_traced_loop_is_unrolled(opset) -> None:
    program = exported(LoopModel(), (dummy_input, loop_count), capture="trace", opset_version=opset)
    assert set(operators(program)) == {"Add"}
    assert torch.equal(program(dummy_input, loop_count), dummy_input + 10)


@pytest.mark.parametrize("opset", OPSETS)
def test_a_traced_model_that_calls_a_scripted_loop_keeps_it(opset) -> None:
    names = ["input_data", "loop_range"]
    program = exported(LoopModel2(), (dummy_input, loop_count), capture="trace", opset_version=opset, input_names=names)
    assert operators(program).count("Loop") == 1
    assert torch.equal(program(dummy_input, torch.tensor(9)), LoopModel2()(dummy_input, torch.tensor(9)))
    assert torch.equal(program(dummy_input, torch.tensor(0)), dummy_input)


class InPlaceIndexedAssignment(torch.nn.Module):
    def forward(self, data):
        new_data = torch.arange(9).reshape(3, 3).float()
        data = data.clone()
        data[0:1, :, 0:3] = new_data
        return data


class IndexPut(torch.nn.Module):
    def forward(self, data):
        data = data.clone()
        new_data = torch.arange(4).to(torch.float32)
        data[torch.tensor([0, 2])] = new_data
        return data


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize("opset", OPSETS)
def test_indexed_assignment(capture, opset) -> None:
    for model, x in [(InPlaceIndexedAssignment(), torch.zeros(3, 3, 4)), (IndexPut(), torch.zeros(3, 4))]:
        program = exported(model, (x,), capture=capture, opset_version=opset)
        assert torch.equal(program(x), model(x))


class ListLoopModel(torch.nn.Module):
    def forward(self, x):
        res = []
        res1 = []
        arr = x.split(2, 0)
        for i in range(len(arr)):
            res.append(arr[i].sum(0, False))
            res1.append(arr[-1 - i].sum(0, False))
        return torch.stack(res), torch.stack(res1)


class Unbind(torch.nn.Module):
    def forward(self, x):
        return x.unbind(0)


class SplitIntoThree(torch.nn.Module):
    def forward(self, x):
        return [torch.squeeze(out, 0) for out in torch.split(x, [1, 1, 1], dim=0)]


@pytest.mark.parametrize("opset", SEQUENCES)
def test_a_list_in_a_loop(opset) -> None:
    model = torch.jit.script(ListLoopModel())
    x = torch.randn(6, 3)
    program = exported(model, (x,), opset_version=opset, dynamic_axes={"x": [0]})
    for rows in (6, 10):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize("opset", OPSETS)
def test_unbind_and_split_into_a_list(capture, opset) -> None:
    x = torch.randn(3, 4)
    for model in (Unbind(), SplitIntoThree()):
        program = exported(model, (x,), capture=capture, opset_version=opset)
        assert len(program.model.graph.outputs) == 3
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("opset", OPSETS)
def test_the_lstm_with_dynamic_axes(opset) -> None:
    layer_count = 4
    model = nn.LSTM(10, 20, num_layers=layer_count, bidirectional=True).eval()
    args = (torch.randn(5, 3, 10), (torch.randn(layer_count * 2, 3, 20), torch.randn(layer_count * 2, 3, 20)))
    names = ["input", "h0", "c0"]
    axes = {"input": {0: "sequence"}, "output": {0: "sequence"}}
    program = exported(
        model,
        args,
        capture="trace",
        opset_version=opset,
        input_names=names,
        output_names=["output", "hn", "cn"],
        dynamic_axes=axes,
    )
    other = (torch.randn(8, 3, 10), args[1])
    torch.testing.assert_close(program(*other), model(*other), rtol=1e-4, atol=1e-5)


class ImplicitCastType(torch.jit.ScriptModule):
    @torch.jit.script_method
    def forward(self, x):
        # Exporter knows x is float32, will export '2' as float32 as well.
        y = x + 2
        # Without type propagation, exporter doesn't know the datatype of y.
        return y + 3


@pytest.mark.parametrize("opset", OPSETS)
def test_numbers_take_the_dtype_of_the_tensor(opset) -> None:
    for x in (torch.tensor([1.0]), torch.tensor([1], dtype=torch.int32)):
        program = exported(ImplicitCastType(), (x,), opset_version=opset)
        assert set(operators(program)) == {"Add"}
        assert torch.equal(program(x), x + 5) and program(x).dtype == x.dtype


class Sizes(torch.nn.Module):
    def forward(self, states):
        batch_size, seq_length = states.shape[:2]
        real_seq_length = seq_length
        real_seq_length += 2
        return states * (real_seq_length + seq_length) + batch_size


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize("opset", OPSETS)
def test_arithmetic_in_place_on_a_size(capture, opset) -> None:
    model = Sizes()
    program = exported(model, (torch.ones(2, 3),), capture=capture, opset_version=opset, dynamic_axes={"states": [0, 1]})
    for x in (torch.ones(2, 3), torch.ones(4, 7)):
        assert torch.equal(program(x), model(x))


class ReturnsSize(torch.nn.Module):
    def forward(self, states):
        _batch_size, seq_length = states.shape[:2]
        real_seq_length = seq_length
        real_seq_length += 2
        return real_seq_length + seq_length


def test_a_size_is_returned_as_a_number() -> None:
    program = exported(ReturnsSize(), (torch.ones(2, 3),), capture="trace", dynamic_axes={"states": [0, 1]})
    assert program(torch.ones(2, 3)) == 8 and program(torch.ones(2, 10)) == 22


class ReshapeByTensor(torch.nn.Module):
    def forward(self, x, y):
        return x.reshape(y, -1)


@pytest.mark.parametrize("opset", OPSETS)
def test_reshape_by_a_tensor(opset) -> None:
    x = torch.arange(12.0)
    program = exported(ReshapeByTensor(), (x, torch.tensor(3)), capture="trace", opset_version=opset)
    for rows in (3, 4, 1):
        assert torch.equal(program(x, torch.tensor(rows)), x.reshape(rows, -1))


class Lists(torch.nn.Module):
    def forward(self, xs: list[torch.Tensor], scale: float = 2.0):
        return {"sum": xs[0] + xs[1], "scaled": xs[1] * scale}


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_lists_in_and_dicts_out(capture) -> None:
    xs = [torch.ones(2), torch.arange(2.0)]
    program = exported(Lists(), (xs,), capture=capture)
    torch.testing.assert_close(program(xs), Lists()(xs))
