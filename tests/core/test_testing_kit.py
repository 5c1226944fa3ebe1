"""The kit for authors of packs: accepted tables, findings and messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch

import onnxexp
from onnxexp import Builder, OpsetError, SymbolicTable, Tensor
from onnxexp._passes import pass_checks
from onnxexp.graph import SymbolicSize
from onnxexp.testing import Case, cases, cases_of, check_case, check_table
from onnxexp.testing._case import OPSETS
from tests.older_releases import RUNTIME

X = torch.linspace(-2, 2, 12).reshape(3, 4)

library = torch.library.Library("onnxexp_kit", "DEF")
library.define("scale(Tensor x, float factor=2.0, *, int from=0) -> Tensor")
library.define("pair.Tensor(Tensor a, Tensor b) -> (Tensor, Tensor sum)")
library.define("pair.Scalar(Tensor a, Scalar b, SymInt[2] sizes=1) -> (Tensor, Tensor)")
library.define("pair.out(Tensor a, Scalar b, int c, int d, *, Tensor(a!) out) -> Tensor(a!)")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")


def twice(op: Builder, x: Tensor) -> Tensor:
    """twice(Tensor x) -> Tensor"""
    return op.Add(x, x)


def table(function: Callable[..., Any] = twice, *names: str, **limits: Any) -> SymbolicTable:
    made = SymbolicTable("onnxexp_kit")
    made(*(names or ("twice",)), **limits)(function)
    return made


def call(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.onnxexp_kit.twice(x)


def case(function: Callable[..., Any] = twice, **options: Any) -> Case:
    return Case(call, X, plugins=[table(function)], **options)


# check_case


def test_every_opset_is_checked_static_and_dynamic() -> None:
    asked: list[tuple[int, Any]] = []

    def noting(op: Builder, x: Tensor) -> Tensor:
        asked.append((op.opset, x.shape))
        return op.Add(x, x)

    program = check_case(case(noting, dynamic={0: [0]}))
    known = [opset for opset in OPSETS if opset <= onnx.defs.onnx_opset_version()]
    assert [opset for opset, _ in asked] == [opset for opset in known for _ in range(2)]
    assert {isinstance(shape[0], SymbolicSize) for _, shape in asked} == {False, True}
    assert program.model.opset_imports[""] == known[-1] and not isinstance(program.model.graph.inputs[0].shape[0], int)


def test_one_run_may_be_chosen() -> None:
    assert check_case(case(), 13).model.opset_imports[""] == 13
    with pytest.raises(ValueError, match="the case call has no dynamic axes"):
        check_case(case(), dynamic=True)


def test_wrong_numbers_are_told_with_opset_and_mode() -> None:
    def thrice(op: Builder, x: Tensor) -> Tensor:
        return op.Mul(x, 3.0)

    with pytest.raises(AssertionError, match=r"(?s)^call at opset 18, static, for inputs \[3, 4\]: .*differ.*12 / 12") as caught:
        check_case(case(thrice, opsets=(18,)))
    assert "dynamic" not in str(caught.value)


def test_sizes_that_were_baked_in_are_found() -> None:
    def baked(op: Builder, x: Tensor) -> Tensor:
        return op.Add(op.Slice(x, [0], [3], [0]), x)

    check_case(case(baked))
    with pytest.raises(AssertionError, match=r"(?s)^call at opset 20, dynamic, for inputs \[4, 4\]"):
        check_case(case(baked, opsets=(20,), dynamic={0: [0]}))


def test_every_failing_run_is_listed() -> None:
    def late(op: Builder, x: Tensor) -> Tensor:
        return op.Add(op.Gelu(x), x)

    with pytest.raises(AssertionError) as caught:
        check_case(case(late, opsets=(13, 18, 20), dynamic={0: [0]}))
    places = [
        line.partition(":")[0].partition(", for")[0] for line in str(caught.value).splitlines() if line.startswith("call at")
    ]
    assert places == [f"call at opset {opset}, {mode}" for opset in (13, 18, 20) for mode in ("static", "dynamic")]
    assert "call at opset 13, static: the export fails: " in str(caught.value)


def test_with_an_opset_the_exports_own_error_comes_through() -> None:
    def gelu(op: Builder, x: Tensor) -> Tensor:
        return op.Gelu(x)

    with pytest.raises(OpsetError) as caught:
        check_case(case(gelu), 13)
    assert caught.value.first_opset == 20


def test_opsets_that_onnx_does_not_know_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx.defs.onnx_opset_version", lambda: 18)
    assert case(opsets=(13, 18, 20)).runs() == [(13, False), (18, False)]
    with pytest.raises(ValueError, match="has no opset that the installed onnx knows"):
        check_case(case(opsets=(20,)))


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="the installed onnx does not know these opsets")
@pytest.mark.skipif(RUNTIME < (1, 31), reason="the installed ONNX Runtime does not take opset 26")
def test_beyond_the_runtime_the_checker_alone_decides() -> None:
    def thrice(op: Builder, x: Tensor) -> Tensor:
        return op.Mul(x, 3.0)

    assert check_case(case(thrice, opsets=(27, 28))).model.opset_imports[""] == 28
    with pytest.raises(AssertionError, match="opset 26"):
        check_case(case(thrice, opsets=(26, 27)))


class _Renaming(ir.passes.InPlacePass):
    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for node in model.graph:
            node.op_type = "NoSuchOperator"
        return ir.passes.PassResult(model, True)


class _Breaking:
    @onnxexp.hookimpl
    def post_pass(self) -> ir.passes.InPlacePass:
        return _Renaming()


def test_the_checker_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_checks, "check_model", lambda model: "")  # else the export itself refuses the pass
    broken = Case(call, X, plugins=[table(), _Breaking()], opsets=(18,))
    with pytest.raises(AssertionError, match="^call at opset 18, static: onnx's checker refuses"):
        check_case(broken)


def emitting(op: Builder, x: Tensor) -> Tensor:
    return op.Add(x, x) if op.opset < 18 else op.Sub(op.Add(x, op.Add(x, x)), x)


@pytest.mark.parametrize(
    ("emits", "found"),
    [
        ({"Add", "Sub"}, None),
        ({"Add": 2, "Sub": 1}, None),
        ({9: {"Add"}, 18: {"Add": 2, "Sub": 1}}, None),
        ({18: {"Add", "Sub"}}, None),
        ({}, None),
        ({"Add"}, r"opset 20, static: the graph consists of \{'Add': 2, 'Sub': 1\}, expected \{'Add'\}"),
        ({"Add": 1, "Sub": 1}, r"opset 20, static: .*expected \{'Add': 1, 'Sub': 1\}"),
        ({9: {"Add"}}, "^call at opset 18, static: .*\ncall at opset 20, static: "),
        ({9: {"Add": 2}, 18: {"Add", "Sub"}}, r"^call at opset 13, static: the graph consists of \{'Add': 1\}.*$"),
        (set(), "expected"),
    ],
)
def test_emits(emits: Any, found: str | None) -> None:
    asked = case(emitting, opsets=(13, 18, 20), emits=emits)
    if found is None:
        check_case(asked)
    else:
        with pytest.raises(AssertionError, match=found):
            check_case(asked)


@pytest.mark.parametrize(
    "options", [{"opsets": (8, 13)}, {"opsets": (29,)}, {"opsets": ()}, {"dynamic": {1: [0]}}, {"dynamic": {0: [2]}}]
)
def test_cases_that_cannot_be_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the case call: "):
        case(**options)


def test_names_of_cases() -> None:
    thrice = torch.library.custom_op("onnxexp_kit::thrice", lambda x: x * 3, mutates_args=(), schema="(Tensor x) -> Tensor")
    named = [Case(thrice, X), Case(torch.abs, X), Case(torch.nn.ReLU(), X), Case(torch.abs, X, name="given")]
    assert [case.name for case in named] == ["thrice", "abs", "ReLU", "given"]


def test_grown() -> None:
    (grown,) = Case(call, X, dynamic={0: [0, 1]}).grown()
    assert grown.shape == (4, 5) and torch.equal(grown[:3, :4], X)


def wrong_at_one(op: Builder, x: Tensor) -> Tensor:
    return op.Mul(x, op.Min(op.cast(op.Gather(op.Shape(x), 0, axis=0), torch.float32), 2.0))


def test_a_dynamic_case_is_checked_at_size_1() -> None:
    with pytest.raises(AssertionError, match=r"for inputs \[1, 4\]"):
        check_case(case(wrong_at_one, dynamic={0: [0]}, opsets=(20,)))


# The decorator

LISTED = (case(opsets=(13, 20), dynamic={0: [1]}), case(opsets=(18,)), case(opsets=(9,), xfail="not yet", name="later"))


@cases(*LISTED)
def decorated(check: Any) -> None:
    check()


def test_parameters_of_the_decorator() -> None:
    (mark,) = decorated.pytestmark  # type: ignore[attr-defined]
    names = [parameter.id for parameter in mark.args[1]]
    assert names == ["call-13", "call-13-dynamic", "call-20", "call-20-dynamic", "call1-18", "later-9"]
    assert [[mark.name for mark in parameter.marks] for parameter in mark.args[1]][-2:] == [[], ["xfail"]]


def test_cases_of() -> None:
    assert cases_of(decorated) == list(LISTED)
    assert cases_of(sys.modules[__name__])[:3] == list(LISTED)
    assert cases_of(test_grown, decorated, decorated) == list(LISTED)


@cases(case(dynamic={0: [0, 1]}, emits={"Add": 1}))
def test_two_lines_are_enough(check: Any) -> None:
    check()


# check_table


def test_a_good_table() -> None:
    good = table()

    @good("scale")
    def scale(op: Builder, x: Tensor, factor: float, from_: int) -> Tensor:
        """onnxexp_kit::scale(Tensor x, float factor=2.0, *, int from=0) -> Tensor; by a factor"""
        return op.Mul(x, factor)

    @good("pair", "aten::atan2")
    def pair(op: Builder, a: Tensor, b: Any, *sizes: Any) -> tuple[Tensor, Tensor]:
        """pair.Scalar(Tensor a, Scalar b,
        int[2] sizes=[1, 1]) -> (Tensor, Tensor)

        More about it.
        """
        return a, a

    good("pair.Tensor", since=13)(pair)
    good.direct({"aten::abs": "Abs"})
    check_table(good)


def wrong(text: str, parameters: str = "op, x") -> Callable[..., Any]:
    made: Callable[..., Any] = eval(compile(f"lambda {parameters}: None", __file__, "eval"))
    made.__doc__ = text
    return made


TWICE = "twice(Tensor x) -> Tensor"
SCALE = "scale(Tensor x, float factor=2.0, *, int from=0) -> Tensor"


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (table(wrong(TWICE), "twise"), r"onnxexp_kit::twise: torch has no such operator \(did you mean 'onnxexp_kit::twice'\?\)"),
        (table(wrong(TWICE), "twice.Tensor"), "onnxexp_kit::twice.Tensor: torch has no such operator"),
        (table(wrong(TWICE), "nowhere::twice"), "nowhere::twice: torch has no such operator"),
        (table(wrong(TWICE, "op, x, y")), "takes 2 arguments after op, torch's .* has 1"),
        (table(wrong(TWICE, "op")), "takes 0 arguments after op"),
        (table(wrong(TWICE, "op, x, y, *rest")), "takes 2 or more arguments after op"),
        (table(wrong("", "op, a, b"), "pair"), r"takes 2 arguments after op, torch's onnxexp_kit::pair.Scalar\(.* has 3"),
        (table(wrong(TWICE, "op, input")), "calls the argument 'x' of onnxexp_kit::twice 'input'; name the parameter 'x'"),
        (table(wrong(SCALE, "op, x, factor, since"), "scale"), "name the parameter 'from_'"),
        (table(wrong("")), r"must begin with the torch schema, such as 'twice\(Tensor x\) -> Tensor'; it begins with ''"),
        (table(wrong("Twice x.")), "it begins with 'Twice x.'"),
        (table(wrong("twice(Tensor x) -> ...")), "must begin with the torch schema"),
        (table(wrong("twice(Tensr x) -> Tensor")), "torch cannot parse the schema at the beginning of its docstring"),
        (table(wrong("twice(Tensor y) -> Tensor")), "lists Tensor y where the argument is Tensor x"),
        (table(wrong("twice(int x) -> Tensor")), "lists int x where the argument is Tensor x"),
        (table(wrong("twice(Tensor x, int y) -> Tensor")), "its docstring lists 2 arguments"),
        (table(wrong("twice(Tensor x) -> (Tensor, Tensor)")), "lists other results"),
        (table(wrong(SCALE.replace("2.0", "3.0"), "op, *all"), "scale"), "lists float factor=3.0 where .* float factor=2.0"),
        (table(wrong(SCALE.replace("*, ", ""), "op, *all"), "scale"), r"is int from=0 \(after the \*\)"),
        (table(wrong("scale(Tensor x) -> Tensor", "op, *all"), "scale"), "its docstring lists 1 arguments"),
        (table(wrong(SCALE)), "begins with the schema of onnxexp_kit::scale, and it is registered for onnxexp_kit::twice"),
        (table(twice, since=8), r"twice \(since=8\): since=8 is no opset from 9 to 28"),
        (table(twice, since=29), "since=29 is no opset"),
        (table(twice, until=8), "no opset from 9 to 28 selects it first"),
    ],
)
def test_what_is_wrong_with_a_table(made: SymbolicTable, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem) as caught:
        check_table(made)
    assert f"{Path(__file__).resolve()}:" in str(caught.value)


@pytest.mark.parametrize("text", ["scale(Tensor x, ...) -> Tensor", "scale(Tensor x, float factor=2.0, *, ...) -> Tensor", SCALE])
def test_a_long_schema_may_be_cut(text: str) -> None:
    check_table(table(wrong(text, "op, x, *rest"), "scale"))


def test_a_one_to_one_entry_names_an_onnx_operator() -> None:
    made = SymbolicTable("aten")
    made.direct({"abs": "Absolute"})
    with pytest.raises(AssertionError, match="one-to-one: aten::abs: ONNX has no operator Absolute"):
        check_table(made)


def test_an_entry_that_another_hides() -> None:
    made = table()
    made("twice", since=9)(twice)
    with pytest.raises(AssertionError, match="twice: no opset from 9 to 28 selects it first; there is also since=9"):
        check_table(made)


def test_a_plugin_is_no_table() -> None:
    with pytest.raises(TypeError, match="is no SymbolicTable; pass the tables in a plugin"):
        check_table(sys.modules[__name__])  # type: ignore[arg-type]


def test_all_problems_are_told_together() -> None:
    made = table(wrong("", "op, x, y"), "twice", "twise", since=29)
    with pytest.raises(AssertionError, match="5 problems in the table of onnxexp_kit:") as caught:
        check_table(made)
    assert len(str(caught.value).splitlines()) == 6


# check_table: has every entry a case?


def test_an_entry_without_a_case() -> None:
    made = table()
    made("twice", since=18)(twice)
    made.direct({"aten::abs": "Abs"})
    before = list(made)
    listed = [Case(call, X, plugins=[made], opsets=(18, 20))]
    with pytest.raises(AssertionError) as caught:
        check_table(made, listed)
    assert [line.partition(": ")[2] for line in str(caught.value).splitlines()[1:]] == [
        "onnxexp_kit::twice: no case calls it",
        "aten::abs: no case calls it",
    ]
    check_table(made, [*listed, Case(call, X, plugins=[made], opsets=(9, 20)), Case(torch.abs, X, plugins=[made], opsets=(20,))])
    assert list(made) == before


def test_each_version_is_tried_at_an_opset_of_its_own() -> None:
    made = table()
    for since in (11, 13, 20):
        made("twice", since=since)(twice)
    check_table(made, [Case(call, X, plugins=[made], opsets=(10, 12, 19, 20))])
    with pytest.raises(AssertionError, match=r"^1 problem in(?s:.*)twice \(since=13\): no case calls it"):
        check_table(made, [Case(call, X, plugins=[made], opsets=(10, 12, 20))])


def test_an_entry_for_old_opsets_only_is_tried_there() -> None:
    made = table(twice, until=12)
    check_table(made, [Case(call, X, plugins=[made], opsets=(9, 20))])


def test_an_excuse_must_hold() -> None:
    made = table()
    check_table(made, [], without_case={"onnxexp_kit::twice": "only graphs of old hold it"})
    with pytest.raises(AssertionError, match="a case calls it, although `without_case` excuses it: only graphs of old hold it"):
        check_table(made, [Case(call, X, plugins=[made])], without_case={"onnxexp_kit::twice": "only graphs of old hold it"})


def test_a_case_that_fails_still_counts() -> None:
    """The case's own test fails; the table's test only counts the calls."""

    def declining(op: Builder, x: Tensor) -> Tensor:
        """twice(Tensor x) -> Tensor"""
        op.decline("not today")

    made = table(declining)
    check_table(made, [Case(call, X, plugins=[made])])


def test_what_is_called_only_where_axes_are_static() -> None:
    made = table(twice, static_shapes=True)
    check_table(made, [Case(call, X, plugins=[made], dynamic={0: [0]})])


def vendor(op: Builder, x: Tensor) -> Tensor:
    return op.domain("my.vendor").call("Double", x)


def test_an_operator_of_another_domain_is_not_run() -> None:
    check_case(Case(call, X, plugins=[table(vendor)], opsets=(18,), runs=False, emits={"my.vendor::Double"}))
    with pytest.raises(AssertionError, match=r"Double"):
        check_case(Case(call, X, plugins=[table(vendor)], opsets=(18,)))


def test_libraries_are_registered(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"the hook prepare_session .*absent\.so"):
        check_case(Case(call, X, plugins=[table()], opsets=(18,), libraries=[tmp_path / "absent.so"]))
