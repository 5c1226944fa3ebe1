"""Inputs or attributes: what the schema of each opset makes of one call."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest
import torch

from onnxexp import Builder, LoweringError, OpsetError, Tensor
from onnxexp._builder.attributes import encode
from onnxexp._builder.builder import state_of
from onnxexp._builder.onnx_schemas import Operator, history, ir_version, operator
from onnxexp._builder.resolve_call import split_arguments
from onnxexp._neutral_graph import TensorType


def spec(name: str, opset: int) -> Operator:
    found = operator("", name, opset)
    assert found is not None
    return found


def bound(name: str, opset: int, *args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    return split_arguments(spec(name, opset), args, kwargs, opset)


def emitted(opset: int, make: Any) -> ir.Node:
    op = Builder(opset)
    make(op, op.input("x", TensorType(torch.float32, (2, 3))))
    return state_of(op).scope.nodes[-1]


# Rule 1 and 2: the same argument, an attribute before and an input after


@pytest.mark.parametrize(
    ("name", "argument", "first", "value"),
    [
        ("Squeeze", "axes", 13, [0]),
        ("Unsqueeze", "axes", 13, [0]),
        ("ReduceSum", "axes", 13, [1]),
        ("ReduceMax", "axes", 18, [1]),
        ("Clip", "min", 11, 0.0),
        ("Clip", "max", 11, 6.0),
        ("Pad", "pads", 11, [0, 1, 0, 1]),
        ("Slice", "starts", 10, [0]),
        ("Dropout", "ratio", 12, 0.25),
        ("Split", "split", 13, [1, 1]),
        ("TopK", "K", 10, [1]),
    ],
)
def test_an_attribute_that_became_an_input(name: str, argument: str, first: int, value: Any) -> None:
    others = {"Pad": {}, "Slice": {"ends": [1]}, "Split": {"outputs": 2}}.get(name, {})
    for opset in range(9, 29):
        node = emitted(opset, lambda op, x: op.call("", name, x, **{argument: value}, **others))
        called = {"K": "k"}.get(argument, argument) if opset < first else argument
        assert (called in node.attributes) is (opset < first), opset
        if opset >= first:
            index = spec(name, opset).input_index(argument)
            assert index is not None and node.inputs[index] is not None


def test_names_that_changed_are_known_at_every_opset() -> None:
    pad = emitted(9, lambda op, x: op.Pad(x, [0, 1, 0, 1], constant_value=2.0))
    assert pad.attributes["value"].value == 2.0
    assert bound("BatchNormalization", 9, input_var=5, input_mean=4, B=3, scale=2, X=1) == ([1, 2, 3, 4, 5], {})
    assert bound("BatchNormalization", 20, mean=4, var=5, B=3, scale=2, X=1) == ([1, 2, 3, 4, 5], {})


def test_a_known_tensor_is_as_good_as_its_value() -> None:
    node = emitted(9, lambda op, x: op.Squeeze(op.Unsqueeze(x, op.constant([0])), axes=[op.constant(0)]))
    assert list(node.attributes["axes"].value) == [0]


def test_an_unknown_tensor_where_an_attribute_is_needed() -> None:
    def squeeze(op: Builder, x: Tensor) -> Any:
        return op.Squeeze(x, op.Shape(x))

    with pytest.raises(OpsetError, match="axes is an attribute of Squeeze at opset 11: it must be known at export") as raised:
        emitted(11, squeeze)
    assert raised.value.first_opset == 13
    with pytest.raises(LoweringError, match="perm is an attribute of Transpose at opset 20: it must be known at export") as never:
        emitted(20, lambda op, x: op.Transpose(x, perm=op.Shape(x)))
    assert not isinstance(never.value, OpsetError)


# Rule 3: what only another version knows


@pytest.mark.parametrize(
    ("name", "keyword", "first"),
    [
        ("MaxPool", {"ceil_mode": 0}, 10),
        ("Shape", {"start": 0}, 15),
        ("Reshape", {"allowzero": 0}, 14),
        ("ReduceMean", {"noop_with_empty_axes": 0}, 18),
        ("Gather", {"axis": 0}, 9),
    ],
)
def test_a_default_of_another_version_is_dropped(name: str, keyword: dict[str, Any], first: int) -> None:
    (key,) = keyword
    for opset in range(9, first):
        assert bound(
            name, opset, 1, **{"kernel_shape": [2]} if name == "MaxPool" else {"shape": 2} if name == "Reshape" else {}, **keyword
        )
        assert (
            key not in bound(name, opset, 1, *([2] if name == "Reshape" else []), kernel_shape=[2], **keyword)[1]
            if name == "MaxPool"
            else True
        )


def test_anything_else_of_another_version_is_refused() -> None:
    with pytest.raises(LoweringError, match="Shape has no start at opset 14"):
        bound("Shape", 14, 1, start=1)
    with pytest.raises(LoweringError, match="Resize has no sizes at opset 10"):
        bound("Resize", 10, 1, sizes=[2])


def test_none_is_not_given() -> None:
    assert bound("Clip", 20, 1, None, 6) == ([1, None, 6], {})
    assert bound("Clip", 20, 1, 0, None) == ([1, 0], {})
    assert bound("Clip", 20, 1, min=None, max=6) == ([1, None, 6], {})
    assert bound("Conv", 20, 1, 2, None, strides=None) == ([1, 2], {})
    assert bound("Shape", 9, 1, start=None, end=None) == ([1], {})
    assert bound("Resize", 20, 1, None, None, [2]) == ([1, None, None, [2]], {})
    assert bound("Resize", 11, 1, None, None, [2]) == ([1, [], [], [2]], {}), "an empty tensor says so where an input is required"


def test_variadic_inputs_take_all_positions() -> None:
    assert bound("Concat", 20, 1, 2, 3, axis=0) == ([1, 2, 3], {"axis": 0})
    assert bound("Max", 20, 1) == ([1], {})
    assert bound("Einsum", 20, 1, 2, equation="i,i") == ([1, 2], {"equation": "i,i"})
    assert bound("Loop", 20, None, 1, 2, 3, body=0)[0] == [None, 1, 2, 3]


# Rule 4: what nobody knows


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"),
    [
        ("Relu", (1,), {"alpha": 1}, r"Relu has no input or attribute alpha; it takes the inputs \(X\) and the attributes \(\)"),
        ("Relu", (), {}, r"Relu at opset 20 also needs X"),
        ("Relu", (None,), {}, r"Relu at opset 20 also needs X"),
        ("Relu", (1, 2), {}, r"Relu takes the inputs \(X\).*; 2 positional arguments were given"),
        ("Relu", (1,), {"X": 2}, r"Relu got X twice"),
        ("Conv", (1, None, 3), {}, r"Conv at opset 20 also needs W"),
        (
            "Concat",
            (1, 2),
            {},
            r"Concat at opset 20 also needs axis; it takes the inputs \(\*inputs\) and the attributes \(axis\)",
        ),
    ],
)
def test_a_call_that_fits_no_version(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        bound(name, 20, *args, **kwargs)


# Attributes


def encoded(name: str, opset: int = 20, **given: Any) -> dict[str, Any]:
    return {key: attribute.value for key, attribute in encode(spec(name, opset), given).items()}


def test_attributes_take_what_python_has() -> None:
    known = Builder(20).constant([1, 0])
    assert (
        encoded("Transpose", perm=(1, 0))
        == encoded("Transpose", perm=known)
        == encoded("Transpose", perm=[1.0, 0])
        == {"perm": (1, 0)}
    )
    assert encoded("Cast", to=torch.float16) == encoded("Cast", to=10) == {"to": 10}
    assert encoded("Concat", axis=True) == {"axis": 1}
    assert encoded("LeakyRelu", alpha=1) == {"alpha": 1.0}
    assert encoded("TopK", 9, k=[3]) == encoded("TopK", 9, k=3) == {"k": 3}
    assert encoded("Gelu", approximate="tanh") == {"approximate": "tanh"}
    assert encoded("RNN", activations=["Relu"]) == {"activations": ("Relu",)}
    assert encoded("RandomNormal", dtype=torch.float64, shape=[2]) == {"dtype": 11, "shape": (2,)}


def test_defaults_are_left_out_and_the_rest_sorted() -> None:
    assert encoded("Gemm", transB=1, alpha=1.0, beta=0.5, transA=0) == {"beta": 0.5, "transB": 1}
    assert list(encoded("Gemm", transB=1, transA=1, beta=0.5)) == ["beta", "transA", "transB"]
    assert encoded("RNN", activations=["Tanh", "Tanh"]) == {}
    assert encoded("Elu", alpha=0.1) == {"alpha": 0.1}
    assert encoded("LeakyRelu", alpha=0.01) == {}, "0.01 is the default, which the schema holds as a float32"


@pytest.mark.parametrize(
    ("name", "given"), [("Concat", {"axis": 0.5}), ("Concat", {"axis": "0"}), ("Elu", {"alpha": "x"}), ("Transpose", {"perm": 1})]
)
def test_attributes_that_do_not_fit(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{name}: .* does not fit the attribute"):
        encoded(name, **given)


# Schemas


def test_schemas_are_read_once() -> None:
    assert operator("", "Add", 13) is operator("", "Add", 13)
    assert operator("", "Add", 14) is operator("", "Add", 28)
    assert [version.since for version in history("", "Add")][-3:] == [7, 13, 14]


def test_deprecated_operators_are_gone() -> None:
    assert operator("", "Upsample", 9) is not None
    assert operator("", "Upsample", 10) is None
    assert operator("", "Nonsense", 20) is None and history("", "Nonsense") == ()


def test_the_lowest_ir_version_that_may_carry_the_opset() -> None:
    assert [ir_version(opset) for opset in (9, 11, 13, 18, 20, 21, 23)] == [4, 6, 7, 8, 9, 10, 11]
