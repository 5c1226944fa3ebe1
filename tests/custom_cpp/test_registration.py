"""Registrations, and the errors for what cannot be registered."""

from __future__ import annotations

from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp_custom_cpp import Operator, OperatorTable, register_op, unregister_op

pytestmark = pytest.mark.usefixtures("foo", "registrations")
LIBRARY = torch.library.Library("onnxexp_registration", "FRAGMENT")
ATTRS = {"attr1": "f", "attr2": "i"}


def defined(schema: str, kernel: Any, key: str = "CPU") -> Any:
    LIBRARY.define(schema)
    name = schema.partition("(")[0]
    LIBRARY.impl(name, kernel, key)
    return getattr(torch.ops.onnxexp_registration, name)


class Lambda(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


@pytest.mark.parametrize(("attrs", "message"), [
    ({"attr1": "i", "attr2": "i"}, r"'attr1' is 'i', and a float is 'f'"),
    ({"attr1": "f", "attr2": "is"}, r"'attr2' is 'is', and a int is 'i'"),
    ({"attr1": "f", "attr3": "i"}, r"the attribute 'attr3' is no argument of the operator, or a tensor"),
    ({"attr1": "f", "input1": "f"}, r"the attribute 'input1' is no argument of the operator, or a tensor"),
    ({"attr1": "s", "attr3": "i"}, r"'attr1' is 's', .*; the attribute 'attr3' is no argument"),
])  # fmt: skip
def test_schema_and_attributes_that_disagree(attrs: dict[str, str], message: str) -> None:
    with pytest.raises(onnxexp.OptionError, match=message):
        register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=attrs)


def test_a_library_that_is_loaded_later_is_checked_at_the_export() -> None:
    register_op("onnxexp_registration::later", onnx="reg::Later", attrs={"s": "i"})
    later = defined("later(Tensor x, float s) -> Tensor", lambda x, s: x * s)
    with pytest.raises(onnxexp.OnnxExporterError, match=r"'s' is 'i', and a float is 'f'"):
        onnxexp.export(Lambda(lambda x: later(x, 0.5)), (torch.ones(3),), capture="trace")


def test_arguments_without_a_form() -> None:
    defined("placed(Tensor x, Device d, Tensor[] a, Tensor[] b) -> Tensor", lambda x, d, a, b: x.clone())
    with pytest.raises(onnxexp.OptionError, match=r"d is a Device, which ONNX has no form of; it takes two lists of tensors"):
        register_op("onnxexp_registration::placed", onnx="reg::Placed")
    defined("named(Tensor x, str name) -> Tensor", lambda x, name: x.clone())
    with pytest.raises(onnxexp.OptionError, match=r"name is a str, which can only be an attribute: add it to attrs"):
        register_op("onnxexp_registration::named", onnx="reg::Named", attrs={})


def test_an_operator_is_registered_once() -> None:
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS)
    with pytest.raises(
        onnxexp.OptionError, match=r"is registered as custom_domain::Foo version 1 already; override=True replaces it"
    ):
        register_op("cpp_ops::foo_forward", onnx="custom_domain::Foo", attrs=ATTRS)
    with pytest.raises(onnxexp.OptionError, match=r"registered for the domain custom_domain, and now for other_domain"):
        register_op("cpp_ops::foo_forward", onnx="other_domain::Foo", version=2, attrs=ATTRS)
    register_op("cpp_ops::foo_forward", onnx="custom_domain::Other", attrs=ATTRS, override=True)
    with pytest.raises(onnxexp.OptionError, match=r"already"):
        OperatorTable(*[Operator("cpp_ops::foo_forward", "custom_domain::Foo", attrs=ATTRS)] * 2)


def test_what_was_registered_can_be_removed() -> None:
    with pytest.raises(onnxexp.OptionError, match=r"onnxexp_registration::none is not registered"):
        unregister_op("onnxexp_registration::none")
    gone = defined("gone(Tensor x) -> Tensor", lambda x: x.clone())
    register_op("onnxexp_registration::gone", onnx="reg::Gone")
    unregister_op("onnxexp_registration::gone")
    with pytest.raises(onnxexp.UnsupportedOperators, match=r"its registration was removed"):
        onnxexp.export(Lambda(gone), (torch.ones(3),), capture="trace")


@pytest.mark.parametrize(("arguments", "message"), [
    (("foo", "d::F"), r"torch is 'foo'; it is written NAMESPACE::NAME"),
    (("a::foo", "F"), r"onnx is 'F'; it is written NAMESPACE::NAME"),
    (("a::foo", "ai.onnx::F"), r"a custom operator has a domain of its own"),
    (("a::foo", "d::F", 0), r"the version of d::F is 0; it is a whole number from 1 on"),
    (("a::foo", "d::F", 1, {}, print), r"give attrs or a symbolic, not both"),
    (("a::foo", "d::F", 1, None, None, "trace"), r"the body of d::F is 'trace'; it is 'decompose', a function"),
])  # fmt: skip
def test_names_and_versions(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(onnxexp.OptionError, match=message):
        Operator(*arguments)


def test_an_operator_that_torch_decomposes_stays_one_node() -> None:
    composite = defined("composite(Tensor x, float s) -> Tensor", lambda x, s: x * s + 1, "CompositeImplicitAutograd")
    register_op("onnxexp_registration::composite", onnx="reg::Composite", body="decompose")
    for capture in ("export", "trace"):
        program = onnxexp.export(
            Lambda(lambda x: composite(x, 2.0)), (torch.ones(3),), dynamic_shapes=(({0: "n"},),), capture=capture
        )
        assert [node.op_type for node in program.model.graph] == ["Composite"]
        session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
        name = session.get_inputs()[0].name
        assert session.run(None, {name: torch.full((5,), 3.0).numpy()})[0].tolist() == [7.0] * 5


def test_a_dtype_is_an_onnx_element_type() -> None:
    convert = defined("convert(Tensor x, ScalarType dtype, bool twice) -> Tensor", lambda x, dtype, twice: (x * 2).to(dtype))
    register_op("onnxexp_registration::convert", onnx="reg::Convert")
    program = onnxexp.export(Lambda(lambda x: convert(x, torch.float16, True)), (torch.ones(3),), capture="trace")
    (node,) = program.model.graph
    assert {name: each.value for name, each in node.attributes.items()} == {"dtype": 10, "twice": 1}
    assert program(torch.ones(3)).dtype == torch.float16


def test_arguments_without_names_take_the_attributes_in_order() -> None:
    """``m.def("foo", &foo)`` calls the arguments ``_0``, ``_1`` and so on."""
    nameless = defined("nameless(Tensor _0, float _1, int _2) -> Tensor", lambda x, s, n: x * s + n)
    register_op("onnxexp_registration::nameless", onnx="reg::Nameless", attrs={"scale": "f", "plus": "i"})
    program = onnxexp.export(Lambda(lambda x: nameless(x, 0.5, 2)), (torch.ones(3),), capture="trace")
    (node,) = program.model.graph
    assert {name: each.value for name, each in node.attributes.items()} == {"scale": 0.5, "plus": 2}
    torch.testing.assert_close(program(torch.ones(3)), torch.full((3,), 2.5))


def test_without_the_plugin_the_table_says_what_it_needs() -> None:
    class Pack:
        symbolics = OperatorTable(Operator("cpp_ops::foo_forward", "acme::Foo", attrs=ATTRS))

    foo = Lambda(lambda x: torch.ops.cpp_ops.foo_forward(x, x, 1.0, 1))
    with pytest.raises(onnxexp.LoweringError, match=r"cpp_ops::foo_forward needs the plugin custom-cpp, which is off"):
        onnxexp.export(foo, (torch.ones(3),), capture="trace", plugins=[Pack(), ...], without=["custom-cpp"])


def test_a_fallback_in_a_fresh_process(tmp_path: Any) -> None:
    import subprocess
    import sys

    path = tmp_path / "model.onnx"
    with pytest.warns(UserWarning, match=r"need torch when the model runs"):
        onnxexp.export(Lambda(lambda x: torch.linalg.eigvals(x).abs()), (torch.eye(3),), path, fallback="torch")
    code = (
        "import sys, numpy; from onnxexp_custom_cpp import runtime; session = runtime.session(sys.argv[1]);"
        "print(session.run(None, {session.get_inputs()[0].name: 2 * numpy.eye(3, dtype=numpy.float32)})[0].tolist());"
        "assert 'onnxexp._pipeline' not in sys.modules and 'onnxexp_aten' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[2.0, 2.0, 2.0]", done.stderr
