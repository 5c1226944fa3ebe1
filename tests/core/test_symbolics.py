"""Tables of symbolics as data, and several of them as one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onnxexp
from onnxexp import SymbolicTable
from tests.core.tiny import export

X = torch.randn(2, 3)


def table(*names: str, namespace: str = "aten", override: bool = False, since: int = 0) -> SymbolicTable:
    made = SymbolicTable(namespace, override=override)
    made(*names, since=since)(lambda op, *args: args[0])
    return made


def test_a_name_without_an_overload_is_every_overload() -> None:
    made = SymbolicTable("aten")

    @made("add")
    def every(op: Any, *args: Any) -> None: ...

    @made("add.Scalar")
    def one(op: Any, *args: Any) -> None: ...

    assert made.find("aten::add.Tensor", 20).function is every  # type: ignore[union-attr]
    assert made.find("aten::add.Scalar", 20).function is one  # type: ignore[union-attr]
    assert made.find("aten::add", 20).function is every  # type: ignore[union-attr]
    assert made.find("aten::sub.Tensor", 20) is None
    assert len(made) == 2


def test_a_name_with_a_namespace_is_taken_as_it_is() -> None:
    made = table("mine::foo", "bar")
    assert [entry.op for entry in made] == ["aten::bar", "mine::foo"]


@pytest.mark.parametrize(("opset", "since"), [(9, 0), (12, 0), (13, 13), (17, 13), (18, 18), (28, 18)])
def test_the_highest_since_not_above_the_target_is_chosen(opset: int, since: int) -> None:
    made = SymbolicTable("aten")
    for start in (18, 0, 13):  # in any order
        made("softmax", since=start)(lambda op, *args: None)
    assert made.find("aten::softmax.int", opset).since == since  # type: ignore[union-attr]
    assert [entry.since for entry in made.versions("aten::softmax.int")] == [0, 13, 18]


def test_one_operator_has_one_entry_for_each_since() -> None:
    made = table("softmax", since=13)
    with pytest.raises(ValueError, match="aten::softmax has a symbolic for opset 13 in this table already"):
        made("softmax", since=13)(lambda op: None)
    with pytest.raises(ValueError, match="aten::abs has a symbolic for opset any in this table already"):
        table("abs").direct({"abs": "Abs"})


def test_a_table_includes_others() -> None:
    made = table("relu")
    made.include(table("relu", since=13), table("mine::foo"))
    assert [(entry.op, entry.since) for entry in made] == [("aten::relu", 0), ("aten::relu", 13), ("mine::foo", 0)]
    assert made.operators() == {"aten::relu", "mine::foo"}
    with pytest.raises(ValueError, match="aten::relu has a symbolic for opset any in this table already"):
        made.include(table("relu"))


def test_the_function_itself_comes_back() -> None:
    made = SymbolicTable("aten")

    @made("relu")
    def relu(op: Any, self: Any) -> Any:
        """relu(Tensor self) -> Tensor"""

    assert relu.__name__ == "relu" and relu.__doc__


def test_direct_entries_take_the_tensors_in_order() -> None:
    made = SymbolicTable("aten", override=True)
    made.direct({"abs": "Abs", "atan2": "Sub", "fmod.Scalar": "Neg"})
    assert {entry.op: entry.direct for entry in made} == {"aten::abs": "Abs", "aten::atan2": "Sub", "aten::fmod.Scalar": "Neg"}
    program = export(lambda x, y: (torch.atan2(x, y), torch.fmod(x, 3)), (X, X + 1), plugins=[made])
    torch.testing.assert_close(program(X, X + 1), (X - (X + 1), -X))


def test_what_is_registered_between_two_exports_takes_part() -> None:
    class Pack:
        symbolics = SymbolicTable("aten", override=True)
        claimed = 0

        @onnxexp.hookimpl
        def capture_context(self, options: onnxexp.Options) -> None:
            self.claimed = len(options.claims)

    pack = Pack()
    for op, onnx_name in (("sin", "Sin"), ("relu", "Relu"), ("cos", "Cos")):
        with pytest.raises(onnxexp.UnsupportedOperators):
            onnxexp.export(getattr(torch, op), (X,), plugins=[pack])
        pack.symbolics.direct({op: onnx_name})
        program = onnxexp.export(getattr(torch, op), (X,), plugins=[pack])
        assert [node.op_type for node in program.model.graph] == [onnx_name]
    assert pack.claimed == 3


def test_declared_limits() -> None:
    made = SymbolicTable("aten")
    for since, until in ((0, 12), (15, None)):
        made("relu", since=since, until=until)(lambda op, self: op.Relu(self))
    assert [made.find("aten::relu", opset) is not None for opset in (12, 13, 14, 15)] == [True, False, False, True]
    (first, _) = made.versions("aten::relu")
    assert first.location.startswith(f"{__file__}:")
