"""Registrations by name."""

from __future__ import annotations

import re
import threading
import warnings
from typing import Any

import pytest
import torch

import onnxexp
import onnxexp_torch_onnx as onnx_exporter


class Gelu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)


X = torch.randn(2, 3)


def exported(opset: int = 17, **options: Any) -> list[str]:
    return [node.op_type for node in onnx_exporter.export(Gelu(), X, opset_version=opset, **options).model.graph]


def test_a_registration_counts_from_its_opset_on_and_until_it_is_taken_back() -> None:
    before = exported()
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Relu", x), 11)
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Neg", x), 15)
    assert exported(17) == ["Neg"] and exported(13) == ["Relu"] and exported(9) not in (["Neg"], ["Relu"])
    onnx_exporter.unregister_custom_op_symbolic("aten::gelu", 15)
    assert exported(17) == ["Relu"]
    onnx_exporter.unregister_custom_op_symbolic("aten::gelu", 11)
    assert exported(17) == before


def test_taking_back_what_is_not_there_warns() -> None:
    with pytest.warns(UserWarning, match="no symbolic is registered for aten::gelu"):
        onnx_exporter.unregister_custom_op_symbolic("aten::gelu", 9)


@pytest.mark.parametrize("name", ["gelu", "aten:gelu", "", "a::b::c", "aten::"])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(onnxexp.OptionError, match="namespace::name"):
        onnx_exporter.register_custom_op_symbolic(name, lambda g: None, 9)


@pytest.mark.parametrize("opset", [0, -1, 99, "9", 9.5, None, True])
def test_an_opset_that_is_none(opset: Any) -> None:
    def relu(g, x, approximate):
        return x

    with pytest.raises(
        onnxexp.OptionError, match=rf"aten::gelu: the symbolic .*relu at .*test_registry.py:\d+ is for opset {opset!r}"
    ):
        onnx_exporter.register_custom_op_symbolic("aten::gelu", relu, opset)


@pytest.mark.parametrize("name", ["nowhere::gelu", "aten::geluu"])
def test_an_operator_that_torch_does_not_have(name: str) -> None:
    before = exported()
    onnx_exporter.register_custom_op_symbolic(name, lambda g, x: x, 9)
    with pytest.warns(UserWarning, match=rf"test_registry.py:\d+ is registered for {name}, an operator that torch does not have"):
        assert exported() == before


def test_the_last_registration_of_an_opset_counts() -> None:
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Relu", x), 9)
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Neg", x), 9)
    assert exported() == ["Neg"]
    onnx_exporter.unregister_custom_op_symbolic("aten::gelu", 9)
    assert exported() not in (["Neg"], ["Relu"])


BAD_DESCRIPTORS: list[tuple[tuple[str, ...], str, str]] = [
    # descriptors, our message, torch's
    (
        ("v",),
        "<lambda> got 2 arguments, and parse_args names 1 of them",
        "A mismatch between the number of arguments (2) and their descriptors (1) was found",
    ),
    (("v", "q"), "'q' is not a descriptor: use v, i, is, f, fs, b, s, t or none", "specified with descriptor 'q'"),
    (
        ("v", "i"),
        "the argument approximate of <lambda> is 'none', which cannot be converted to 'i'",
        "invalid literal for int() with base 10: 'none'",
    ),
    (
        ("i", "s"),
        "the argument x of <lambda> must be known at export (i), but prim::Param computes it",
        "for argument 'x' of node '<lambda>', got 'prim::Param'",
    ),
]


@pytest.mark.parametrize(("descriptors", "ours", "theirs"), BAD_DESCRIPTORS)
@pytest.mark.parametrize("helper", ["ours", "theirs"])
def test_bad_descriptors(descriptors: tuple[str, ...], ours: str, theirs: str, helper: str) -> None:
    parse_args = onnx_exporter.symbolic_helper.parse_args if helper == "ours" else torch.onnx.symbolic_helper.parse_args
    symbolic = parse_args(*descriptors)(lambda g, x, approximate: g.op("Relu", x))
    onnx_exporter.register_custom_op_symbolic("aten::gelu", symbolic, 9)
    with pytest.raises(onnxexp.LoweringError) as caught:
        exported()
    text = str(caught.value)
    assert re.search(r"the symbolic .*<lambda> at .*test_registry\.py:\d+", text), text
    assert "return torch.nn.functional.gelu(x)" in text and "aten::gelu" in text
    assert (ours if helper == "ours" else theirs) in text


def test_what_is_not_callable() -> None:
    with pytest.raises(onnxexp.OptionError, match="not callable"):
        onnx_exporter.register_custom_op_symbolic("aten::gelu", "relu", 9)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["::gelu", "aten::gelu_", "aten::gelu"])
def test_spellings(name: str) -> None:
    onnx_exporter.register_custom_op_symbolic(name, lambda g, x, approximate: g.op("Relu", x), 9)
    assert exported() == ["Relu"]


def test_a_context_before_g() -> None:
    def symbolic(ctx: onnx_exporter.SymbolicContext, g, x, approximate):
        assert ctx.cur_node.kind() == "aten::gelu" and ctx.params_dict == {}
        return g.op("Relu", x)

    onnx_exporter.register_custom_op_symbolic("aten::gelu", symbolic, 9)
    assert exported() == ["Relu"]


def test_a_callable_object() -> None:
    class Symbolic:
        def __call__(self, g, x, approximate):
            return g.op("Relu", x)

    onnx_exporter.register_custom_op_symbolic("aten::gelu", Symbolic(), 9)
    assert exported() == ["Relu"]


def test_constants_come_as_torch_onnx_gave_them() -> None:
    seen: dict[str, Any] = {}

    def symbolic(g, x, dim, keepdim, dtype):
        from torch.onnx import symbolic_helper

        seen["kinds"] = [each.node().kind() for each in (dim, keepdim, dtype)]
        seen["dim"] = symbolic_helper._get_const(dim, "is", "dim")
        seen["keepdim"] = symbolic_helper._maybe_get_const(keepdim, "b")
        seen["none"] = symbolic_helper._is_none(dtype)
        return symbolic_helper._reducesum_helper(g, x, axes_i=seen["dim"], keepdims_i=1)

    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum((1,), keepdim=True)

    onnx_exporter.register_custom_op_symbolic("aten::sum", symbolic, 9)
    onnx_exporter.export(Sum(), X).verify()
    assert seen == {"kinds": ["onnx::Constant", "onnx::Constant", "prim::Constant"], "dim": [1], "keepdim": True, "none": True}


def test_a_list_of_tensors_and_dynamic_sizes() -> None:
    def cat(g, tensors, dim):
        from torch.onnx import symbolic_helper as sh

        assert sh._is_packed_list(tensors) and sh._is_tensor_list(tensors)
        return g.op("Concat", *sh._unpack_list(tensors), axis_i=sh._get_const(dim, "i", "dim"))

    def view(g, x, size):
        return g.op("Reshape", x, size)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, y], 1).view(x.shape[0] * 2, -1)

    onnx_exporter.register_custom_op_symbolic("aten::cat", cat, 9)
    onnx_exporter.register_custom_op_symbolic("aten::view", view, 9)
    program = onnx_exporter.export(Model(), (X, X), dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})
    program.verify((torch.randn(5, 3), torch.randn(5, 3)))


def test_registrations_serve_onnxexp_export_on_request() -> None:
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Relu", x), 9)
    assert [node.op_type for node in onnxexp.export(Gelu(), X).model.graph] != ["Relu"]
    program = onnxexp.export(Gelu(), X, plugins=[onnx_exporter.registered(), ...])
    assert [node.op_type for node in program.model.graph] == ["Relu"]


LIBRARY = torch.library.Library("registry_tests", "FRAGMENT")
LIBRARY.define("suppress(Tensor x, float limit) -> Tensor")
LIBRARY.impl("suppress", lambda x, limit: x.clamp(max=limit), "CompositeExplicitAutograd")
torch.library.register_fake("registry_tests::suppress", lambda x, limit: torch.empty_like(x), lib=LIBRARY)


class Suppress(torch.nn.Module):
    """An operator of a library that registers with torch.onnx, as torchvision does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.registry_tests.suppress(x, 0.5)


def suppress(g: Any, x: Any, limit: Any) -> Any:
    return g.op("Min", x, limit)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_error_names_a_registration_that_the_export_leaves_out(capture: str, rows: int) -> None:
    asked: dict[str, Any] = {"args": (torch.randn(rows, 4),), "capture": capture}
    with pytest.raises(onnxexp.UnsupportedOperators, match="no plugin lowers it and torch has no decomposition"):
        onnxexp.export(Suppress(), **asked)
    torch.onnx.register_custom_op_symbolic("registry_tests::suppress", suppress, 11)
    try:
        for exporter in (onnxexp.export, onnx_exporter.export):
            with pytest.raises(onnxexp.UnsupportedOperators) as raised:
                exporter(Suppress(), **asked)
            assert "registered with torch.onnx, and this export does not use it; to fix this, " in str(raised.value)
            assert "onnxexp_torch_onnx.export(..., torch_registrations=True)" in str(raised.value)
            assert raised.value.counts == {"registry_tests::suppress": 1}
        assert "torch_registrations=True" in onnxexp.check(Suppress(), **asked).message
        onnx_exporter.export(Suppress(), **asked, torch_registrations=True).verify()
        with pytest.raises(onnxexp.OpsetError, match=r"registry_tests::suppress from opset 11 on; the target is opset 10"):
            onnx_exporter.export(Suppress(), **asked, torch_registrations=True, opset_version=10)
    finally:
        torch.onnx.unregister_custom_op_symbolic("registry_tests::suppress", 11)
    onnx_exporter.register_custom_op_symbolic("registry_tests::suppress", suppress, 11)
    with pytest.raises(onnxexp.UnsupportedOperators, match=r"registered with onnxexp_torch_onnx.*registered\(\), \.\.\.\]"):
        onnxexp.export(Suppress(), **asked)
    onnxexp.export(Suppress(), **asked, plugins=[onnx_exporter.registered(), ...]).verify()


def test_what_was_registered_with_torch_onnx_itself() -> None:
    torch.onnx.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Relu", x), 9)
    try:
        assert exported(torch_registrations=True) == ["Relu"]
        assert exported() != ["Relu"]
        onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Neg", x), 9)
        assert exported(torch_registrations=True) == ["Neg"]  # one's own counts
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::gelu", 9)


def test_torch_knows_the_type_of_what_a_foreign_operator_gives() -> None:
    """A custom operator has its own result dtype; a copied `setType` changes nothing."""

    class Found(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            values, indices = x.topk(2)
            return torch.signbit(x), values * 2, indices

    onnx_exporter.register_custom_op_symbolic("aten::signbit", lambda g, x: g.op("my::Sign", x).setType(x.type()), 9)
    onnx_exporter.register_custom_op_symbolic("aten::topk", lambda g, x, *rest: g.op("my::Top", x, outputs=2), 9)
    for capture in ("export", "trace"):
        outputs = onnx_exporter.export(Found(), X, capture=capture).model.graph.outputs
        found = [f"{value.dtype!r}{value.shape}" for value in outputs]
        assert found == ["BOOL[2,3]", "FLOAT[2,2]", "INT64[2,2]"], capture


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_parameters_by_name_and_the_captured_nodes_inputs(capture: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)).eval()
    seen: list[Any] = []

    def linear(ctx: onnx_exporter.SymbolicContext, g, x, weight, bias):
        assert ctx.params_dict == g.params_dict and ctx.env == g.env
        assert [g.env[value] for value in g.original_node.inputs()] == [x, weight, bias]
        assert torch.equal(g.params_dict[weight.debugName()], weight.node().t("value"))
        seen.append((weight.debugName(), bias.debugName(), sorted(g.params_dict)))
        return g.op("Gemm", x, weight, bias, transB_i=1)

    onnx_exporter.register_custom_op_symbolic("aten::linear", linear, 9)
    onnx_exporter.export(model, X, capture=capture).verify()
    names = ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert seen == [("0.weight", "0.bias", names), ("1.weight", "1.bias", names)]


def test_another_plugin_is_asked_where_a_symbolic_returns_none() -> None:
    before = exported()
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: None, 9)
    assert exported() == before


def test_a_failing_symbolic_is_named_with_its_line() -> None:
    def failing(g, x, approximate):
        raise KeyError("nothing here")

    onnx_exporter.register_custom_op_symbolic("aten::gelu", failing, 9)
    with pytest.raises(onnxexp.LoweringError) as caught:
        exported()
    text = str(caught.value)
    assert f"test_registry.py:{failing.__code__.co_firstlineno}" in text and "KeyError: 'nothing here'" in text
    assert "return torch.nn.functional.gelu(x)" in text


def test_several_threads() -> None:
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Relu", x), 9)
    found: list[Any] = []
    with warnings.catch_warnings():
        threads = [
            threading.Thread(target=lambda opset=opset: found.append((opset, exported(opset)))) for opset in (9, 13, 17, 20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == [(opset, ["Relu"]) for opset in (9, 13, 17, 20)]


@pytest.fixture
def assigned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Assign a function in a module of torch.onnx's symbolics during the test."""

    def assign(module: str, name: str, function: Any) -> None:
        monkeypatch.setitem(vars(getattr(onnx_exporter, module)), name, function)

    return assign


@pytest.mark.parametrize(("module", "opsets"), [("symbolic", (9, 20)), ("symbolic_opset9", (9, 20)), ("symbolic_opset13", (13,))])
def test_a_function_assigned_in_a_module_is_registered_from_its_opset_on(module: str, opsets: Any, assigned: Any) -> None:
    before = {opset: exported(opset) for opset in (9, 13, 20)}
    assigned(module, "gelu", lambda g, x, approximate: g.op("Neg", x))
    for opset in (9, 13, 20):
        assert exported(opset) == (["Neg"] if opset >= opsets[0] else before[opset])
    onnx_exporter.register_custom_op_symbolic("aten::gelu", lambda g, x, approximate: g.op("Abs", x), opsets[0])
    assert exported(20) == ["Abs"]


def test_an_assigned_function_may_call_what_it_replaces(assigned: Any) -> None:
    gelu = onnx_exporter.symbolic_opset9.gelu
    before = exported()
    assigned("symbolic_opset9", "gelu", lambda g, x, approximate: g.op("Neg", gelu(g, x, approximate)))
    assert exported() == [*before, "Neg"]


def test_an_assigned_function_that_no_operator_has_is_a_warning(assigned: Any) -> None:
    assigned("symbolic_opset9", "_a_helper", lambda g: None)
    assigned("symbolic_opset9", "Table", dict)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = exported()
    assigned("symbolic_opset9", "gelo", lambda g, x: x)
    with pytest.warns(UserWarning, match=r"symbolic_opset9\.gelo was assigned, but torch has no operator aten::gelo"):
        assert exported() == before
