"""Several tables as one: order of symbolics, and operators without any."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from onnxexp import LoweringError, OpsetError, OptionError, PluginConflict, SymbolicTable
from onnxexp._cli.plugins_command import claims
from onnxexp._symbolics.dispatch import Dispatcher, Source
from tests.core.tiny import export

X = torch.randn(2, 3)


def table(*names: str, override: bool = False, **limits: Any) -> SymbolicTable:
    made = SymbolicTable("aten", override=override)
    made(*names, **limits)(lambda op, *args: args[0])
    return made


def dispatcher(prefer: dict[str, str] | None = None, /, **tables: SymbolicTable) -> Dispatcher:
    return Dispatcher((Source(name, each) for name, each in tables.items()), prefer)


def first(made: Dispatcher, op: str, opset: int = 20) -> str:
    return made.candidates(op, opset)[0].source.plugin


def test_two_plugins_on_one_operator_are_a_conflict_that_names_both_and_every_operator() -> None:
    (message,) = dispatcher(b=table("relu", "abs"), a=table("relu", "abs", "neg")).conflicts
    assert message.startswith("the plugin 'a' and the plugin 'b' both lower aten::abs, aten::relu. Choose one")
    (message,) = dispatcher(a=table("relu", override=True), b=table("relu", override=True)).conflicts
    assert 'prefer = {"aten::relu" = "..."}' in message
    (message,) = dispatcher(a=table("add.Scalar"), b=table("add")).conflicts
    assert "'a' and the plugin 'b' both lower aten::add.Scalar" in message


def test_a_conflict_is_an_error_for_its_operators_only() -> None:
    made = dispatcher(a=table("add.Scalar", "relu", "abs"), b=table("add", "relu"), c=table("relu", "abs", override=True))
    assert [first(made, op) for op in ("aten::relu", "aten::abs", "aten::add.Tensor")] == ["c", "c", "b"]
    with pytest.raises(PluginConflict, match=r"^the plugin 'a' and the plugin 'b' both lower aten::add.Scalar. Choose one"):
        made.candidates("aten::add.Scalar", 20)


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_the_order_of_the_plugins_does_not_matter(order: tuple[str, ...]) -> None:
    sources = {
        "a": Source("a", table("relu")),
        "b": Source("b", table("relu", override=True)),
        "c": Source("c", table("relu"), user=True),
    }
    made = Dispatcher(sources[name] for name in order)
    assert [each.source.plugin for each in made.candidates("aten::relu", 20)] == ["c", "b", "a"]


def test_prefer_decides_also_against_override() -> None:
    tables = {"a": table("relu", "abs"), "b": table("relu", "abs", override=True)}
    made = dispatcher({"aten::relu": "a"}, **tables)
    assert (first(made, "aten::relu"), first(made, "aten::abs")) == ("a", "b")
    assert first(dispatcher({"aten::add": "a"}, a=table("add.Tensor"), b=table("add")), "aten::add.Tensor") == "a"


def test_prefer_must_name_a_plugin_that_lowers_the_operator() -> None:
    with pytest.raises(OptionError, match=r"'b' has no symbolic for aten::relu \(did you mean 'aten::relu6'\?\); a has"):
        dispatcher({"aten::relu": "b"}, a=table("relu"), b=table("relu6"))


def test_override_of_a_whole_name_comes_before_the_overloads_of_others() -> None:
    """An override of add covers add.Scalar as well."""
    made = dispatcher(a=table("add.Scalar"), b=table("add", override=True))
    assert [each.source.plugin for each in made.candidates("aten::add.Scalar", 20)] == ["b", "a"]


def test_several_tables_of_one_plugin_are_no_conflict() -> None:
    assert first(Dispatcher([Source("a", table("relu")), Source("a", table("relu"))]), "aten::relu") == "a"


def test_why_tells_who_is_asked_and_who_is_not() -> None:
    new, old = table("gelu", since=20), table("gelu", until=12)
    made = dispatcher({"aten::gelu": "new"}, new=new, old=old)
    told = [(claim.plugin, claim.chosen, claim.reason) for claim in claims(made, "aten::gelu", 20)]
    assert told == [("new", True, "preferred by the configuration"), ("old", False, "serves up to opset 12")]
    assert [claim.reason for claim in claims(made, "aten::gelu", 9)][1] == "serves from opset 20 on"
    assert claims(made, "aten::relu", 9) == []
    assert claims(dispatcher(a=table("relu")), "aten::relu", 9)[0].reason == "the only plugin that claims it"
    both = claims(dispatcher(a=table("relu"), b=table("relu", override=True)), "aten::relu", 9)
    assert [claim.reason for claim in both] == ["its table overrides", "called where b declines"]


def test_an_operator_that_is_claimed_for_later_opsets_only() -> None:
    later = SymbolicTable("aten")
    later("special_i0", since=20)(lambda op, self: self)
    with pytest.raises(OpsetError, match="lowers aten::special_i0 from opset 20 on") as raised:
        export(torch.special.i0, (X,), opset_version=19, plugins=[later])
    assert raised.value.first_opset == 20


# What a symbolic declares that it cannot do


def limited(**limits: Any) -> SymbolicTable:
    """Build a table with relu as LeakyRelu, which differs from the next one's Relu."""
    made = SymbolicTable("aten", override=True)
    made("relu", **limits)(lambda op, self: op.LeakyRelu(self, alpha=0.0))
    return made


@pytest.mark.parametrize(
    ("limits", "x", "shapes", "lowered"),
    [
        ({"dtypes": {torch.float64}}, X, None, "Relu"),
        ({"dtypes": {torch.float32}}, X, None, "LeakyRelu"),
        ({"static_shapes": True}, X, None, "LeakyRelu"),
        ({"static_shapes": True}, X, ({0: "batch"},), "Relu"),
        ({"until": 19}, X, None, "Relu"),
        ({"since": 21}, X, None, "Relu"),
    ],
)
def test_where_a_limit_does_not_hold_the_next_plugin_is_asked(limits: Any, x: torch.Tensor, shapes: Any, lowered: str) -> None:
    program = export(torch.nn.ReLU(), (x,), dynamic_shapes=shapes, plugins=[limited(**limits)])
    assert [node.op_type for node in program.model.graph] == [lowered]


def test_a_limit_that_leaves_nobody_is_told() -> None:
    only = SymbolicTable("aten")
    only("special_i0", dtypes={torch.float16})(lambda op, self: self)
    with pytest.raises(LoweringError, match=r"special_i0 .*<lambda> of .* does not take torch.float32 .torch.float16"):
        export(torch.special.i0, (X,), plugins=[only])
