"""Folded values match ONNX Runtime's, and nothing large is copied."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as state

from onnxexp import Builder, OpsetError, Tensor
from onnxexp._builder.builder import state_of
from onnxexp._builder.constant_folding import COMPUTED, SMALL, VIEWS
from onnxexp._builder.onnx_schemas import history
from onnxexp._lowering.assemble import assemble
from onnxexp._neutral_graph import TensorType
from onnxexp._serialize import to_proto
from tests.core.operator_calls import Dtype, OpCall, S
from tests.core.test_builder_schemas import DTYPES, Attempt, attempts

WEIGHT = torch.randn(300, 200)

UNSUPPORTED = (state.NotImplemented, state.Fail, state.RuntimeException)
RUN_TIME_ONLY = {"shape", "repeats", "pads", "split", "axes", "starts", "ends"}
"""Inputs for which a random value makes no sense: calls that leave them to run time are not for this test."""
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu)


def random(shape: Sequence[int], dtype: torch.dtype, name: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(name))
    if name in ("indices", "axis", "k"):
        return torch.zeros(shape, dtype=dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        return (torch.randn(shape, generator=generator) * 2).to(dtype)
    numbers = torch.randint(1, 5, shape, generator=generator)
    if dtype.is_signed:
        numbers = numbers * (1 - 2 * torch.randint(0, 2, shape, generator=generator))
    return numbers.to(dtype)


def build(attempt: Attempt, opset: int, *, fold: bool) -> tuple[Builder, list[Tensor]]:
    """Build a call with constants for everything."""
    op = Builder(opset, fold=fold)
    call, spec = attempt.given, history("", attempt.name)[-1]
    assert isinstance(call, OpCall)
    dtypes = dict(attempt.dtypes)
    variables = {formal.name: formal.variable for formal in spec.inputs}

    def constant(name: str, value: Any) -> Any:
        if isinstance(value, Dtype):
            return dtypes[value.variable]
        if not isinstance(value, S):
            return value
        variable = variables.get(name, spec.inputs[0].variable if spec.inputs else "")
        return op.wrap_constant(random(value, dtypes.get(variable) or DTYPES[variable], name), name)

    given = {formal.name: S(2, 3) for formal in spec.inputs if not (formal.optional or formal.variadic)} | dict(call.given)
    inputs = [constant(f"x{index}", value) for index, value in enumerate(call.inputs)]
    made = op.call(
        "", attempt.name, *inputs, outputs=call.outputs, **{name: constant(name, value) for name, value in given.items()}
    )
    return op, [made] if isinstance(made, Tensor) else list(made)


def run(op: Builder, results: Sequence[Tensor], like: Sequence[torch.Tensor]) -> list[np.ndarray[Any, Any]] | None:
    """Run ONNX Runtime; return None without a kernel or binding for the dtype."""
    for result, tensor in zip(results, like, strict=True):
        result.stamp(TensorType(tensor.dtype, tuple(tensor.shape)))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    model = to_proto(assemble(op, [(f"y{index}", tensor) for index, tensor in enumerate(results)]))
    try:
        return list(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {}))
    except (RuntimeError, *UNSUPPORTED):
        return None


def compare(name: str, opset: int) -> tuple[set[torch.dtype], list[str]]:
    compared: set[torch.dtype] = set()
    wrong: list[str] = []
    for attempt in attempts(name):
        assert isinstance(attempt.given, OpCall)
        shapes = [attempt.given.given.get(known) for known in RUN_TIME_ONLY]
        if any(
            isinstance(shape, S) or (isinstance(shape, list) and any(isinstance(size, S) for size in shape)) for shape in shapes
        ):
            continue
        if set(FLOAT8) & {dtype for _, dtype in attempt.dtypes}:
            continue
        try:
            _, folded = build(attempt, opset, fold=True)
        except OpsetError:
            continue
        known = [tensor.const for tensor in folded if tensor.const is not None]
        if len(known) < len(folded):
            continue
        op, results = build(attempt, opset, fold=False)
        expected = run(op, results, known)
        for one, other in zip(known, expected or (), strict=False):
            actual = np.asarray(one.float() if one.dtype == torch.bfloat16 else one)
            tolerance = 2e-3 if one.dtype == torch.float16 else 1e-5
            compared.add(one.dtype)
            same = actual.shape == other.shape and actual.dtype == other.dtype
            if not same or not np.allclose(actual, other, rtol=tolerance, atol=tolerance, equal_nan=True):
                wrong.append(f"{attempt} at opset {opset}: folded {actual.tolist()}, at run time {other.tolist()}")
    return compared, wrong


@pytest.mark.parametrize(
    "opset", [pytest.param(opset, marks=() if opset == 20 else pytest.mark.full) for opset in (9, 13, 20, 23)]
)
@pytest.mark.parametrize("name", sorted({*VIEWS, *COMPUTED}))
def test_folded_is_what_onnx_runtime_computes(name: str, opset: int) -> None:
    compared, wrong = compare(name, opset)
    assert not wrong, "\n".join(wrong)
    if opset >= 20:
        assert compared, "nothing was compared"


def static(op: Builder, made: Tensor) -> torch.Tensor:
    assert made.const is not None
    assert not state_of(op).scope.nodes
    return made.const


@pytest.mark.parametrize(
    "view",
    [
        lambda op, w: op.Transpose(w, perm=[1, 0]),
        lambda op, w: op.Reshape(w, [3, 100, -1]),
        lambda op, w: op.Unsqueeze(w, [0, -1]),
        lambda op, w: op.Squeeze(op.Unsqueeze(w, [0]), [0]),
        lambda op, w: op.Flatten(op.Unsqueeze(w, [0]), axis=2),
        lambda op, w: op.Identity(w),
        lambda op, w: op.Transpose(op.Reshape(op.Transpose(w), [2, 100, 300]), perm=[2, 0, 1]),
        lambda op, w: op.cast(w, torch.float32),
    ],
)
@pytest.mark.parametrize("opset", [9, 13, 20])
def test_views_of_a_weight_look_at_its_memory(view: Any, opset: int) -> None:
    op = Builder(opset)
    made = static(op, view(op, op.wrap_constant(WEIGHT, "weight")))
    assert made.untyped_storage().data_ptr() == WEIGHT.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "large",
    [
        lambda op, w: op.Expand(w, [50, 300, 200]),
        lambda op, w: op.Tile(w, [2, 2]),
        lambda op, w: op.Add(w, 1),
        lambda op, w: op.Gather(w, [0, 1]),
        lambda op, w: op.MatMul(w, op.Transpose(w)),
        lambda op, w: op.Pad(w, [1, 1, 1, 1]),
        lambda op, w: op.Expand(op.constant(1.0), [SMALL + 1]),
        lambda op, w: op.Range(0, SMALL + 1, 1),
        lambda op, w: op.Range(0, -SMALL - 1, -1),
        lambda op, w: op.ConstantOfShape([SMALL, 2]),
        lambda op, w: op.Tile(op.constant([1.0] * 64), [100]),
        lambda op, w: op.Pad(op.constant([1.0]), [SMALL, 0]),
        lambda op, w: op.Add(op.constant([[1.0]] * 100), op.constant([1.0] * 100)),
        lambda op, w: op.MatMul(op.constant([[1.0]] * 100), op.constant([[1.0] * 100])),
        lambda op, w: op.Gather(op.constant([[1.0] * 100]), [0] * 100),
    ],
)
def test_what_would_grow_or_copy_is_left_to_the_runtime(large: Any) -> None:
    op = Builder(20)
    assert large(op, op.wrap_constant(WEIGHT, "weight")).const is None
    assert state_of(op).scope.nodes


def test_tensors_without_data_are_not_computed() -> None:
    op = Builder(20)
    weight = op.wrap_constant(torch.empty(2000, device="meta"), "weight")
    assert op.Div(weight, weight).const is None
    assert [node.op_type for node in state_of(op).scope.nodes] == ["Div"]


def test_what_is_small_is_computed_through_a_chain() -> None:
    op = Builder(20)
    x = op.input("x", TensorType(torch.float32, (2, 3)))
    shape = op.Concat(op.Mul(op.constant([2]), 3), op.Slice(op.Shape(op.wrap_constant(WEIGHT)), [1], [2]), axis=0)
    assert op.static(shape) == [6, 200]
    assert op.Expand(op.Reshape(x, [6, 1]), shape).shape == (6, 200)
    assert [node.op_type for node in state_of(op).scope.nodes] == ["Reshape", "Expand"]


def test_dtypes_that_numpy_lacks_are_left_alone() -> None:
    op = Builder(20)
    half = op.constant([1.0, 2.0], torch.bfloat16)
    assert op.Add(half, 1).const is None
    assert op.static(op.Reshape(half, [2, 1])) == [[1.0], [2.0]]
    assert op.static(op.cast(half, torch.float32)) == [1.0, 2.0]
    assert op.Constant(value=torch.ones(2, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_casts_that_torch_does_otherwise_than_onnx_are_left_alone() -> None:
    op = Builder(20)
    for value in (math.nan, math.inf, 1e20, -1e20):
        assert op.Cast(op.constant([value]), to=torch.int64).const is None
    assert op.Cast(op.constant([300.0]), to=torch.uint8).const is None
    assert op.Cast(op.constant([1e4]), to=torch.float8_e4m3fn).const is None
    assert op.Cast(op.constant(torch.ones(2).to(torch.float8_e4m3fn)), to=torch.float32).const is None
    assert op.static(op.Cast(op.constant([math.nan, 0.0]), to=torch.bool)) == [True, False]


@pytest.mark.parametrize(
    ("sizes", "allowzero", "expected"),
    [([0, -1], 0, (2, 3)), ([-1], 0, (6,)), ([3, 0, 1], 0, None), ([6, 1, 1], 1, (6, 1, 1)), ([], 0, None)],
)
def test_reshape_means_what_onnx_means(sizes: list[int], allowzero: int, expected: tuple[int, ...] | None) -> None:
    op = Builder(20)
    two_by_three = op.constant([[1.0, 2.0, 3.0]] * 2)
    if expected is None:
        with pytest.raises(RuntimeError, match="invalid for input of size 6"):
            op.Reshape(two_by_three, sizes, allowzero=allowzero)
    else:
        assert op.Reshape(two_by_three, sizes, allowzero=allowzero).shape == expected
    assert op.Reshape(op.wrap_constant(torch.ones(0, 3)), [3, 0], allowzero=1).shape == (3, 0)


def test_the_start_and_end_of_shape() -> None:
    op = Builder(20)
    known = op.wrap_constant(torch.ones(2, 3, 4, 5))
    assert op.static(op.Shape(known, start=1, end=-1)) == [3, 4]
    assert op.static(op.Shape(known, start=-2)) == [4, 5]
    assert op.static(op.Shape(known, start=3, end=1)) == []
    assert op.static(op.Shape(known, start=-9, end=99)) == [2, 3, 4, 5]
    assert op.static(op.Size(known)) == 120


def test_axes_from_the_end() -> None:
    op = Builder(20)
    vector = op.constant([1.0, 2.0])
    assert op.Unsqueeze(vector, [0, -1]).shape == (1, 2, 1)
    assert op.Unsqueeze(vector, [-1, 0]).shape == (1, 2, 1)
    assert op.Squeeze(op.Unsqueeze(vector, [0, 2]), [-1]).shape == (1, 2)
    assert op.Flatten(op.wrap_constant(torch.ones(2, 3, 4)), axis=-1).shape == (6, 4)
    assert op.Flatten(op.wrap_constant(torch.ones(2, 3, 4)), axis=0).shape == (1, 24)


def test_nothing_is_computed_where_folding_is_off() -> None:
    op = Builder(20, fold=False)
    assert op.Add(op.constant([1.0]), 1).const is None
    assert op.Transpose(op.wrap_constant(WEIGHT)).const is None


def test_nothing_random_is_computed() -> None:
    op = Builder(20)
    assert op.RandomNormal(shape=[2]).const is None
    assert op.Dropout(op.constant([1.0]), 0.5, True).const is None


def test_operators_whose_reference_is_wrong_or_missing_become_nodes() -> None:
    """onnx's reference has other MaxPool indices, and no HardSwish, Mish or Gelu."""
    op = Builder(20)
    image = op.wrap_constant(torch.randn(1, 1, 4, 4))
    pooled, indices = op.MaxPool(image, kernel_shape=[2, 2], outputs=2)
    assert pooled.const is None and indices.const is None
    for name in ("HardSwish", "Mish", "Gelu"):
        assert op.call("", name, image).const is None


def test_the_reason_why_a_node_is_not_folded_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "onnxexp._builder.constant_folding")
    op = Builder(20)
    assert op.Gather(op.constant([1.0, 2.0]), 5).const is None
    assert [record.getMessage() for record in caplog.records] == [
        "Gather is not folded: IndexError: index 5 is out of bounds for axis 0 with size 2"
    ]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float16, torch.bfloat16])
def test_a_cast_that_makes_a_weight_larger_is_not_folded(dtype):
    op = Builder(20)
    weight = torch.ones(2, SMALL).to(dtype)
    assert op.Cast(op.constant(weight), to=torch.float64).const is None
    assert op.Cast(op.constant(weight[:, :2]), to=torch.float64).const is not None
    assert op.Cast(op.constant(weight.double()), to=torch.float32).const is not None
