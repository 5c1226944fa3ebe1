"""`check`: everything that stands in the way, at once, in the words of `export`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from onnxexp import LoweringError, OptionError, SymbolicTable, UnsupportedOperators, check
from tests.core.tiny import TINY, export

X = torch.randn(2, 3)


@pytest.fixture(scope="module")
def vendor() -> Iterator[torch.library.Library]:
    """Define a custom operator that no pack lowers."""
    library = torch.library.Library("dry_run_vendor", "DEF")
    library.define("route(Tensor x, int k) -> Tensor")
    library.impl("route", lambda x, k: x * k, "CompositeExplicitAutograd")
    library.impl("route", lambda x, k: torch.empty_like(x), "Meta")
    yield library
    library._destroy()


class FiveGaps(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.special.bessel_j0(x)  # nobody lowers it
        x = torch.ops.dry_run_vendor.route(x, 3)  # nor this, which is no operator of torch's own
        x = torch.special.i0(x)  # from opset 21 on
        x = torch.erf(x)  # not for float32
        x = torch.lgamma(x)  # its symbolic raises
        return x.relu()


def gaps() -> SymbolicTable:
    table = SymbolicTable("aten")
    table("special_i0", since=21)(lambda op, self: op.Abs(self))
    table("erf", dtypes={torch.float64})(lambda op, self: op.Erf(self))

    @table("lgamma")
    def lgamma(op: Any, self: Any) -> Any:
        raise KeyError("gamma")

    return table


def test_five_gaps_are_told_at_once(vendor: torch.library.Library) -> None:
    report = check(FiveGaps(), (X,), plugins=[TINY, gaps()])
    assert not report.ok and isinstance(report.error, UnsupportedOperators)
    told = {
        "aten::special_bessel_j0 (1x): no plugin lowers it": "# nobody lowers it",
        "dry_run_vendor::route (1x): no plugin lowers it": "# nor this",
        "aten::special_i0 (1x): the plugin 'inline aten 1' lowers aten::special_i0 from opset 21 on": "# from opset 21 on",
        "aten::erf (1x): the symbolic <lambda> of the plugin 'inline aten 1' at": "# not for float32",
        "aten::lgamma (1x): the symbolic lgamma of the plugin 'inline aten 1' at": "# its symbolic raises",
    }
    for problem, line in told.items():
        assert re.search(rf"{re.escape(problem)}[^\n]*\n    at File [^\n]*test_dry_run.py[^\n]*{line}", report.message), problem
    assert report.message.startswith("5 operators of this model cannot be lowered")
    assert '@dry_run_vendor("route")\n      def route(op, x, k):' in report.message
    with pytest.raises(UnsupportedOperators) as raised:
        export(FiveGaps(), (X,), plugins=[gaps()])
    assert str(raised.value) == report.message


def test_a_plugin_that_is_off_is_named_as_a_fix() -> None:
    report = check(nn.ReLU(), (X,), plugins=[SymbolicTable("mine")])
    assert not report.ok and "no plugin is selected" in report.message


def test_who_lowers_what() -> None:
    report = check(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), (X,), plugins=[TINY])
    assert report.ok and str(report) == f"all {len(report.lowered)} nodes can be lowered at opset 20"
    by = {node.op: by for node, by in report.lowered}
    assert by["prim::If"] == "core" and by["aten::sin"] == by["aten::cos"] == "inline aten"


def test_what_torch_decomposes_is_told_as_such() -> None:
    report = check(lambda x: torch.nn.functional.silu(x), (X,), plugins=[TINY])
    assert [(node.op, by) for node, by in report.lowered] == [("aten::silu", "decomposed")]


def test_several_symbolics_that_fail() -> None:
    report = check(lambda x: torch.lgamma(torch.lgamma(x)), (X,), plugins=[gaps()])
    assert isinstance(report.error, LoweringError) and not isinstance(report.error, UnsupportedOperators)
    assert "aten::lgamma (2x)" in report.message


@pytest.mark.parametrize("argument", ["f", "verify", "verbose", "external_data"])
def test_what_only_export_takes(argument: str) -> None:
    with pytest.raises(OptionError, match=f"{argument} is an argument of export only"):
        check(nn.ReLU(), (X,), **{argument: True})


def test_the_opset_of_the_report() -> None:
    assert check(nn.ReLU(), (X,), opset_version=13, plugins=[TINY]).opset == 13
