"""Names of inputs and outputs."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from onnxexp._errors import OptionError
from onnxexp._request.dynamic_shapes import read_dynamic
from onnxexp._request.io_names import assign_names, assign_output_names
from onnxexp._request.pytree_leaves import RenamingKey, bind, flatten_inputs, flatten_output_spec, flatten_outputs

T = torch.ones(2)
Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Box:
    data: torch.Tensor
    parts: Any = None


class Bag:
    """A container that is registered with torch's pytree, without keys."""

    def __init__(self, *items: Any) -> None:
        self.items = items


pytree.register_pytree_node(Bag, lambda bag: (list(bag.items), None), lambda items, _: Bag(*items))


def forward(x: Any, past: Any = None, *rest: Any, mask: Any = None, **options: Any) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs", "names"),
    [
        ((T,), {}, ["x"]),
        ((T, T), {}, ["x", "past"]),
        ((T, T, T, T), {}, ["x", "past", "rest.0", "rest.1"]),
        ((T, [{"key": T, "value": T}]), {}, ["x", "past.0.key", "past.0.value"]),
        ((T, Box(T, (T, None))), {}, ["x", "past.data", "past.parts.0", "past.parts.1"]),
        ((T, Box(T)), {}, ["x", "past.data"]),
        ((T, Pair(T, T)), {}, ["x", "past.left", "past.right"]),
        ((T, Bag(T, T)), {}, ["x", "past.0", "past.1"]),
        ((T, None, T, 3), {}, ["x", "past", "rest.0", "rest.1"]),
        ((), {"mask": T, "x": T}, ["mask", "x"]),
        ((T,), {"scale": 2.0, "mask": "text"}, ["x", "scale", "mask"]),
        ((T, {"0": {"a": T}, "0.a": T}), {}, ["x", "past.0.a", "past.0.a_1"]),
        ((T, {}), {}, ["x"]),
    ],
)
def test_inputs_are_named_after_parameters_keys_and_fields(
    args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str]
) -> None:
    leaves = flatten_inputs(bind(forward, args, kwargs), args, kwargs)
    assert [leaf.name for leaf in leaves] == names
    torch_order = pytree.tree_leaves((args, kwargs))
    assert all(leaf.value is value for leaf, value in zip(leaves, torch_order, strict=True))


def test_a_call_that_does_not_fit_is_the_users_error() -> None:
    with pytest.raises(OptionError, match=r"forward\(x: .*missing a required argument: 'x'. Give one example for each"):
        bind(forward, (), {"mask": T})


@pytest.mark.parametrize(
    ("result", "names"),
    [
        (T, ["output"]),
        ((T,), ["output_0"]),
        ([T, None, {"k": T}], ["output_0", "output_1", "output_2.k"]),
        ({"logits": T, "past": ((T, T),)}, ["logits", "past.0.0", "past.0.1"]),
        (Box(T, [T]), ["data", "parts.0"]),
        (Pair(T, T), ["left", "right"]),
        (Bag(T, T), ["output_0", "output_1"]),
        ({0: T, 1: T}, ["output_0", "output_1"]),
        ((), []),
    ],
)
def test_outputs_are_named_after_keys_and_fields_or_numbered(result: Any, names: list[str]) -> None:
    assert [leaf.name for leaf in flatten_outputs(result)] == names
    assert [leaf.name for leaf in flatten_output_spec(pytree.tree_structure(result))] == names


def test_a_class_that_refuses_stand_ins_is_named_by_index() -> None:
    class Picky:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor.float()

    pytree.register_pytree_node(Picky, lambda picky: ([picky.tensor], None), lambda items, _: Picky(*items))
    assert [leaf.name for leaf in flatten_output_spec(pytree.tree_structure({"p": Picky(T)}))] == ["p.0"]


def test_given_names_win_and_the_rest_give_way() -> None:
    assert assign_names(["x", "y", "z"], None, what="input") == ["x", "y", "z"]
    assert assign_names(["x", "y", "z"], ["z"], what="input") == ["z", "y", "z_1"]
    assert assign_names(["x", "y"], ["b", "a"], what="input") == ["b", "a"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a", "b", "c"], "gives 3 names.*has 2 inputs: x, y"),
        (["a", "a"], "gives 'a' more than once"),
        (["a", ""], "non-empty strings"),
        ("xy", "must be a list of names"),
        ([1], "must be a list of names"),
    ],
)
def test_bad_names_are_answered(given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        assign_names(["x", "y"], given, what="input")


def test_output_names_do_not_collide_with_inputs() -> None:
    leaves = flatten_outputs({"x": T, "y": T, "x_out": T})
    assert assign_output_names(leaves, None, ["x"]) == ["x_out", "y", "x_out_1"]
    assert assign_output_names(leaves, ["a"], ["x", "y"]) == ["a", "y_out", "x_out"]
    with pytest.raises(OptionError, match="'x' is already the name of an input"):
        assign_output_names(leaves, ["x"], ["x"])


def test_the_new_values_of_a_past_are_the_present() -> None:
    leaves = flatten_outputs({"logits": T, "past_key_values": [{"key": T}, {"key": T}], "passed": T})
    names = ["ids", "past_key_values.0.key", "passed"]
    assert assign_output_names(leaves, None, names) == ["logits", "present.0.key", "present.1.key", "passed_out"]
    assert assign_output_names(leaves, None, ["ids"])[1] == "past_key_values.0.key"  # there was no cache before
    assert assign_output_names(flatten_outputs({"past": T}), None, ["past"]) == ["present"]


class Store:
    """A container with keys that rename it where it is called `store`."""

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tensors


pytree.register_pytree_node(
    Store,
    lambda store: (list(store.tensors), None),
    lambda tensors, _: Store(*tensors),
    serialized_type_name="tests.core.test_names.Store",
    flatten_with_keys_fn=lambda store: (
        [(RenamingKey(str(index), {"store": "past"}), tensor) for index, tensor in enumerate(store.tensors)],
        None,
    ),
)


def test_a_container_may_have_a_name_of_its_own() -> None:
    def forward(store: Any, other: Any, past: Any) -> None: ...

    bound = bind(forward, args := (Store(T, T), Store(T), T), {})
    leaves = flatten_inputs(bound, args, {})
    assert [leaf.name for leaf in leaves] == ["past.0", "past.1", "other.0", "past"]
    assert leaves[1].path == ("store", "1")
    results = {"store": Store(T, T), "deeper": {"store": Store(T)}}
    for outputs in (flatten_outputs(results), flatten_output_spec(pytree.tree_structure(results))):
        assert assign_output_names(outputs, None, ["past.0"]) == ["present.0", "present.1", "deeper.store.0"]


@pytest.mark.parametrize("key", ["past.*", "store.*"])
def test_its_axes_are_described_by_either_name(key: str) -> None:
    spec = read_dynamic(lambda store: store, (Store(T, T),), {}, {key: {0: "batch"}})
    assert [[axis.name for axis in axes.values()] for axes in spec.axes] == [["batch"], ["batch"]]


def test_an_input_that_passes_straight_through_keeps_its_name() -> None:
    leaves = flatten_outputs((T, T, T))
    assert assign_output_names(leaves, None, ["x"], {0: "x", 2: "x"}) == ["x", "output_1", "output_2"]
    assert assign_output_names(leaves, ["first"], ["x"], {0: "x", 2: "x"}) == ["first", "output_1", "x"]
