"""The way through the symbolics: their order, and errors without a symbolic."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

from onnxexp import Builder, ExportContext, LoweringError, OpsetError, Options, SymbolicTable, Tensor, UnsupportedOperators
from onnxexp._builder.builder import state_of
from onnxexp._builder.export_builder import ExportBuilder
from onnxexp._lowering.control_flow import LOWERINGS
from onnxexp._lowering.lowering import Lowering
from onnxexp._neutral_graph import Graph, Node, ScalarType, SourceLocation, TensorType, Value
from onnxexp._plugins.loading import Plugins
from onnxexp._plugins.plugin import Plugin
from tests.core.tiny import export
from tests.torch_versions import needs_torch

X = torch.randn(2, 3)
FLOATS = TensorType(torch.float32, (2, 3))


def mine(**symbolics: Any) -> SymbolicTable:
    """Build a table whose entries take precedence over the tests' own."""
    made = SymbolicTable("aten", override=True)
    for name, symbolic in symbolics.items():
        made(name)(symbolic)
    return made


def failure(model: Any, args: Any = (X,), kind: type[LoweringError] = LoweringError, **options: Any) -> str:
    with pytest.raises(kind) as raised:
        export(model, args, **options)
    assert type(raised.value) is kind, "no more special than what was expected"
    return str(raised.value)


# What nobody lowers


class Exotic(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.lgamma(x)
        x = torch.special.bessel_j0(x)  # the line of bessel
        return torch.lgamma(x).relu()


def test_all_unsupported_operators_are_named_at_once() -> None:
    with pytest.raises(UnsupportedOperators) as raised:
        export(nn.Sequential(Exotic(), nn.ReLU()), (X,))
    assert raised.value.counts == {"aten::lgamma": 5, "aten::special_bessel_j0": 1}
    message = str(raised.value)
    assert message.startswith("2 operators of this model cannot be lowered:\n  aten::lgamma (5x): no plugin lowers it")
    assert message.index("aten::lgamma (5x)") < message.index("aten::special_bessel_j0 (1x)"), "the most frequent first"
    assert re.search(
        r'File ".*test_lowering.py", line \d+, in 0 \(Exotic\): x = torch.special.bessel_j0\(x\)  # the line of bessel', message
    )


def test_an_operator_without_arguments_is_named() -> None:
    @torch.library.custom_op("onnxexp_lowering::seven", mutates_args=())
    def seven() -> torch.Tensor:
        return torch.full((), 7.0)

    seven.register_fake(lambda: torch.empty(()))
    message = failure(lambda x: x + seven(), kind=UnsupportedOperators)
    assert 'def seven(op):\n          """seven() -> Tensor"""\n          return op.constant(0.0)' in message


def test_the_fix_is_a_symbolic_to_start_from() -> None:
    message = failure(torch.lgamma, kind=UnsupportedOperators)
    code = re.search(r"write a symbolic for it:\n(.*?)\n\n\s*onnxexp.export", message, re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {"onnxexp": __import__("onnxexp")}
    exec("\n".join(line.removeprefix("      ") for line in code[1].splitlines()), names)
    assert names["lgamma"].__doc__ == "lgamma(Tensor self) -> Tensor"
    assert export(torch.lgamma, (X,), plugins=[names["aten"]])(X) is not None


def test_places_are_counted_where_they_are_many() -> None:
    class Many(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.lgamma(x)
            x = torch.lgamma(x)
            x = torch.lgamma(x)
            x = torch.lgamma(x)
            return torch.lgamma(x)

    message = failure(Many(), kind=UnsupportedOperators)
    assert message.count("x = torch.lgamma(x)") == 3
    assert "and 2 more places" in message


def test_a_custom_operator_that_nobody_lowers() -> None:
    with torch.library._scoped_library("lowering_test", "FRAGMENT") as library:
        library.define("twice(Tensor x, *, float scale=2.0) -> Tensor")
        library.impl("twice", lambda x, scale=2.0: x * scale, "CompositeExplicitAutograd")
        library.impl("twice", lambda x, scale=2.0: torch.empty_like(x), "Meta")
        message = failure(lambda x: torch.ops.lowering_test.twice(x), kind=UnsupportedOperators)
        assert '@lowering_test("twice")' in message and "def twice(op, x, scale):" in message
        table = SymbolicTable("lowering_test")
        table("twice")(lambda op, x, scale: op.Mul(x, scale))
        program = export(lambda x: torch.ops.lowering_test.twice(x, scale=3.0), (X,), plugins=[table])
        torch.testing.assert_close(program(X), X * 3)


# Decomposition


def test_what_nobody_claims_is_decomposed_node_by_node() -> None:
    program = export(lambda x: torch.nn.functional.silu(x).relu(), (X,), dynamic_shapes=({0: "batch"},))
    torch.testing.assert_close(program(X), torch.nn.functional.silu(X).relu())


def test_what_is_missing_in_a_decomposition_is_named_with_the_operator_that_the_user_wrote() -> None:
    message = failure(lambda x: torch.nn.functional.mish(x), kind=UnsupportedOperators)
    assert "aten::mish (1x): no plugin lowers it, nor all of what torch decomposes it to (" in message
    assert "def mish(op, self):" in message


def test_a_symbolic_may_decline_and_torchs_decomposition_is_asked() -> None:
    def silu(op: Builder, self: Tensor) -> Any:
        op.decline("not today")

    program = export(torch.nn.functional.silu, (X,), plugins=[mine(silu=silu)])
    torch.testing.assert_close(program(X), torch.nn.functional.silu(X))


def test_a_decline_without_a_decomposition_is_told_with_its_reason() -> None:
    def lgamma(op: Builder, self: Tensor) -> Any:
        op.decline("not today")

    message = failure(torch.lgamma, kind=UnsupportedOperators, plugins=[mine(lgamma=lgamma)])
    assert "aten::lgamma (1x): not today" in message
    assert "write a symbolic" not in message


def test_an_operator_claimed_for_later_opsets_only_is_decomposed_before_them() -> None:
    table = SymbolicTable("aten")
    table("silu", since=24)(lambda op, self: op.Swish(self))
    table("lgamma", since=24)(lambda op, self: op.Swish(self))
    for opset, expected in ((20, ["Sigmoid", "Mul"]), (24, ["Swish"])):
        program = export(torch.nn.functional.silu, (X,), plugins=[table], opset_version=opset)
        assert [node.op_type for node in program.model.graph] == expected
    assert "from opset 24 on" in failure(torch.lgamma, kind=OpsetError, plugins=[table])


# What a symbolic gets wrong


def test_another_dtype_than_torchs_is_an_error_where_it_happens() -> None:
    message = failure(torch.relu, plugins=[mine(relu=lambda op, self: op.cast(self, torch.float64))])
    place = r"the symbolic <lambda> of the plugin 'inline aten 1' at \S+test_lowering.py:\d+"
    assert re.search(rf"aten::relu: {place} returns torch.float64", message)
    assert "returns torch.float64 where torch returns torch.float32 (%relu)" in message
    assert "called with (%args.0: float32[2, 3])" in message


@pytest.mark.parametrize(
    ("symbolic", "returned"),
    [
        (lambda op, self: op.ReduceSum(self), "[1, 1]"),
        (lambda op, self: op.ReduceSum(self, keepdims=0), "[]"),
        (lambda op, self: op.Transpose(self, perm=[1, 0]), "[3, 2]"),
        (lambda op, self: op.constant(torch.ones(3)), "[3]"),
    ],
)
def test_another_shape_than_torchs_is_an_error(symbolic: Any, returned: str) -> None:
    message = failure(torch.relu, plugins=[mine(relu=symbolic)])
    place = r"aten::relu: the symbolic <lambda> of the plugin 'inline aten 1' at \S+test_lowering.py:\d+"
    told = f"returns {returned} where torch returns %relu: float32[2, 3]: another shape"
    assert re.search(f"{place} {re.escape(told)}", message)


def test_one_number_for_a_dynamic_size_is_another_shape() -> None:
    dynamic = (({0: "rows", 1: "columns"},),)
    message = failure(torch.relu, plugins=[mine(relu=lambda op, self: op.ReduceSum(self))], dynamic_shapes=dynamic)
    assert "returns [1, 1] where torch returns %relu: float32[rows, columns]" in message


def test_an_unused_output_may_have_any_shape() -> None:
    symbolic = lambda op, self, *_: (op.ReduceMax(self, axes=[1], keepdims=0), op.constant(torch.empty(0, dtype=torch.int64)))  # noqa: E731
    export(lambda x: torch.max(x, 1)[0], (X,), plugins=[mine(max=symbolic)])


@pytest.mark.parametrize("result", [None, (), "text", ["a", "b"], torch.ones(2)])
def test_what_is_no_result(result: Any) -> None:
    message = failure(torch.relu, plugins=[mine(relu=lambda op, self: result)])
    assert "aten::relu: the symbolic <lambda> of" in message and "1 Tensors were expected" in message


def test_too_few_results() -> None:
    message = failure(lambda x: torch.split(x, 1), plugins=[mine(split=lambda op, self, *_: [op.Relu(self)])])
    assert " returned [%" in message and "2 Tensors were expected" in message


@pytest.mark.parametrize(
    "error", [TypeError, KeyError, ZeroDivisionError, NotImplementedError, RuntimeError, AssertionError, OSError]
)
def test_an_exception_of_a_symbolic_becomes_an_error_with_operator_and_line(error: type[Exception]) -> None:
    def relu(op: Builder, self: Tensor) -> Any:
        raise error("broken")

    with pytest.raises(LoweringError) as raised:
        export(Relu(), (X,), plugins=[mine(relu=relu)])
    assert "aten::relu: the symbolic relu of the plugin 'inline aten 1' at " in str(raised.value)
    assert re.search(rf"test_lowering.py:\d+ failed in line \d+ .raise error..broken...: {error.__name__}: ", str(raised.value))
    assert "return x.relu()  # the line of relu" in str(raised.value)
    assert isinstance(raised.value.__cause__, error)


class Relu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()  # the line of relu


class Special(LoweringError):
    """An error that a plugin may define."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} and {two}")


def test_a_plugins_own_errors() -> None:
    def relu(op: Builder, self: Tensor) -> Any:
        raise Special("this", "that")

    assert "aten::relu: this and that\n  called with (%x: float32[2, 3])\n  at File" in failure(Relu(), plugins=[mine(relu=relu)])


def test_a_static_argument_that_is_not() -> None:
    def relu(op: Builder, self: Tensor) -> Any:
        return op.Reshape(self, op.static(op.Shape(self), "the shape"))

    message = failure(Relu(), plugins=[mine(relu=relu)])
    assert "aten::relu: the shape must be known at export, but it depends on the model's inputs" in message


# Opsets


def test_everything_that_needs_another_opset_is_named_with_one_that_does() -> None:
    table = mine(relu=lambda op, self: op.Gelu(self), sin=lambda op, self: op.Swish(self))
    with pytest.raises(OpsetError) as raised:
        export(lambda x: x.relu().sin().relu(), (X,), plugins=[table], opset_version=18)
    assert raised.value.first_opset == 24
    message = str(raised.value)
    assert "aten::relu (2x): ONNX has no Gelu at opset 18; opset 20 can express this call" in message
    assert "aten::sin (1x): ONNX has no Swish at opset 18" in message
    assert message.endswith("opset_version=24 can express all of it")
    assert [node.op_type for node in export(lambda x: x.relu().sin(), (X,), plugins=[table], opset_version=24).model.graph] == [
        "Gelu",
        "Swish",
    ]


def test_unsupported_and_too_old_at_once() -> None:
    table = mine(relu=lambda op, self: op.Gelu(self))
    with pytest.raises(UnsupportedOperators) as raised:
        export(lambda x: torch.lgamma(x.relu()), (X,), plugins=[table], opset_version=18)
    assert raised.value.counts == {"aten::relu": 1, "aten::lgamma": 1}


def test_an_operator_that_was_withdrawn() -> None:
    table = mine(relu=lambda op, self: op.Upsample(op.Unsqueeze(self, [0, 1]), [1.0, 1.0, 1.0, 1.0]))
    with pytest.raises(OpsetError, match="opset 9 is the last that can express this call") as raised:
        export(torch.relu, (X,), plugins=[table])
    assert raised.value.first_opset is None


# Results


def test_numbers_may_stand_for_tensors_and_tensors_for_numbers() -> None:
    table = mine(relu=lambda op, self: 3.0)
    program = export(lambda x: (x.sum().relu() + x.sum(), x), (X,), plugins=[table])
    torch.testing.assert_close(program(X)[0], X.sum() + 3)


def test_values_are_called_as_in_the_captured_program_and_know_where_they_come_from() -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x) + 1

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x).relu()

    program = export(Outer(), (X,))
    nodes = list(program.model.graph)
    assert [node.outputs[0].name for node in nodes] == ["sin", "add", "output"]
    assert [node.name for node in nodes] == ["layer/Sin", "layer/Add", "Relu"]
    sine = nodes[0].metadata_props
    assert sine["onnxexp.op"] == "aten::sin" and sine["onnxexp.scope"] == "layer"
    assert re.fullmatch(r"test_lowering.py:\d+", sine["onnxexp.source"])


def test_a_failed_operator_does_not_hide_the_failures_behind_it() -> None:
    """Nodes after an unsupported operator are lowered with torch's result types."""
    with pytest.raises(UnsupportedOperators) as raised:
        export(lambda x: torch.special.bessel_j0(torch.split(torch.lgamma(x), 1)[0].view(-1)).relu(), (X,))
    assert raised.value.counts == {"aten::lgamma": 1, "aten::special_bessel_j0": 1}


# The lowering itself


def value(name: str, type_: Any = FLOATS) -> Value:
    return Value(name, type_)


def test_a_graph_by_hand() -> None:
    x, y, weight = value("x"), value("y"), value("weight")
    graph = Graph(
        [x], [y, 3, None], [Node("mine::add", [x, [weight, 1]], [y], where=SourceLocation(file="m.py", line=3))], {weight: X}
    )
    table = SymbolicTable("mine")
    table("add")(lambda op, a, others: op.Add(op.Add(a, others[0]), others[1]))
    op = ExportBuilder(ExportContext(Options(opset=20)))
    lowering = Lowering(op, Plugins([Plugin("mine", "", "", table, (table,))]), lambda node: None)
    lowering.bind(x, op.input("x", FLOATS))
    first, *rest = lowering.run(graph)
    assert rest == [3, None]
    assert (first.dtype, first.shape, first.value.name) == (torch.float32, (2, 3), "y")


def test_a_condition_that_is_known_takes_one_branch_alone() -> None:
    x, out = value("x"), value("out")
    branches = [Graph([], [value(name)], []) for name in ("then", "else")]
    for branch, name in zip(branches, ("Relu", "Neg"), strict=True):
        branch.nodes = [Node(f"mine::{name}", [x], [branch.outputs[0]])]
    table = SymbolicTable("mine")
    table.direct({"Relu": "Relu", "Neg": "Neg"})
    for known, expected in ((True, "Relu"), (False, "Neg")):
        op = ExportBuilder(ExportContext(Options(opset=20)))
        lowering = Lowering(op, Plugins([Plugin("mine", "", "", table, (table,))]), lambda node: None, core_lowerings=LOWERINGS)
        lowering.bind(x, op.input("x", FLOATS))
        lowering.run(Graph([x], [out], [Node("prim::If", [known], [out], branches)]))
        assert [node.op_type for node in state_of(op).scope.nodes] == [expected]


@needs_torch((2, 12), "the compiler refuses the branch before the operator fails")
def test_an_error_inside_a_branch_tells_the_operator_in_there() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.sin(x), lambda x: x, (x,))

    def sin(op: Builder, self: Tensor) -> Any:
        raise ValueError("broken")

    assert re.search(
        "aten::sin: the symbolic sin of .* failed in line .*: ValueError: broken", failure(forward, plugins=[mine(sin=sin)])
    )


def test_a_scalar_that_is_known_only_at_run_time() -> None:
    n, out = value("n", ScalarType(int, "n")), value("out")
    table = SymbolicTable("mine")
    seen: list[Any] = []

    @table("fill")
    def fill(op: Builder, size: Any) -> Any:
        seen.append((size[0].scalar, size[0].expr, size[0].dtype, size[0].shape, size[1]))
        return op.Expand(op.constant(1.0), size)

    op = ExportBuilder(ExportContext(Options(opset=20)))
    lowering = Lowering(op, Plugins([Plugin("mine", "", "", table, (table,))]), lambda node: None)
    lowering.bind(n, op.input("n", n.type))
    lowering.run(Graph([n], [out], [Node("mine::fill", [[n, 3]], [out])]))
    assert seen == [(int, "n", torch.int64, (), 3)]
