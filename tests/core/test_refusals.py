"""Messages where torch.export itself refuses functions, which need real source."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from onnxexp import CaptureError
from onnxexp._capture.example_inputs import adapted_inputs, describe_enlargement, enlarge
from onnxexp._capture.torch_state import torch_mode
from onnxexp._request.dynamic_shapes import read_dynamic
from onnxexp._torch_export.export_errors import explain
from onnxexp._torch_export.guard_warnings import record_guard_sources
from tests.core.tiny import export

X = torch.ones(3, 4)
batch = Dim("batch", min=2)


def fail(model: Any, args: Any, *, strict: bool = False, **options: Any) -> str:
    """Return the explanation of a capture that must fail."""
    spec = read_dynamic(model.forward, args, {}, **options)

    def attempt() -> object:
        with torch_mode(), record_guard_sources(), adapted_inputs(model, args, {}, spec) as (new_args, kwargs):
            return torch.export.export(model, new_args, kwargs, dynamic_shapes=spec.shapes, strict=strict)

    with pytest.raises(Exception) as caught:  # noqa: PT011 - torch raises what it likes
        attempt()
    return explain(caught.value, spec, describe_enlargement(spec, *enlarge(args, {}, spec)))


class Adds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(3, 4)  # fixed here


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 3 == 0:  # decided here
            return x * 2
        return x


class Deep(torch.nn.Module):
    """The guard arises inside torch.nn.functional."""

    def forward(self, past: Any) -> torch.Tensor:
        query = past[0]["key"]
        return torch.nn.functional.scaled_dot_product_attention(query, query, query, torch.ones(3, 3))  # attended here


class Sums(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y  # added here


class ByData(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x  # asked here


class Wrong(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(7, 7)  # wrong here


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("model", "args", "shapes", "said"),
    [
        (
            Adds(),
            (X,),
            {"x": {0: "b"}},
            ["axis 0 of input x (b) was asked to be dynamic, but the model fixes it to 3", "# fixed here"],
        ),
        (Adds(), (X,), {"x": {0: batch}}, ["axis 0 of input x (batch)", "fixes it to 3", "# fixed here"]),
        (
            Branches(),
            (X,),
            {"x": {0: batch}},
            ["(x.shape[0] % 3) == 0", "# decided here", "A Dim is proven over its whole range"],
        ),
        (Deep(), (({"key": X},),), {"past.0.key": {0: "b"}}, ["axis 0 of input past.0.key (b)", "# attended here"]),
        (Sums(), (X, X), {"x": {0: batch}, "y": {0: Dim("rows")}}, ["x.shape[0] must always be equal", "# added here"]),
        (Wrong(), (X,), {"x": {0: "b"}}, ["RuntimeError: a and b must have same reduction dim", "# wrong here"]),
    ],
    ids=["fixed", "fixed Dim", "guard", "inside torch", "equal", "plain error"],
)
def test_a_refusal_names_the_input_and_the_users_line(model: Any, args: Any, shapes: Any, said: list[str], strict: bool) -> None:
    told = fail(model, args, strict=strict, dynamic_shapes=shapes)
    assert all(part in told for part in said), told
    assert "test_refusals.py" in told and "TORCH_LOGS" not in told


def test_a_decision_by_data_is_explained() -> None:
    told = fail(ByData(), (X,))
    assert "known only at run time" in told and "# asked here" in told and "torch.where" in told


class Splits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.sum() for part in x[x > 0].split(1)])  # split here


class Combines(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.combinations(x[x > 0])  # combined here


@pytest.mark.parametrize(("model", "operator"), [(Splits(), "aten::split.Tensor"), (Combines(), "aten::combinations")])
def test_a_decision_of_torchs_own_operator_is_not_the_models(model: Any, operator: str) -> None:
    with pytest.raises(CaptureError) as caught:
        export(model, (X,), capture="export")
    told = str(caught.value)
    assert f"{operator} branches on a value that is known only at run time" in told and "torch._check" in told
    assert " here" in told and "in Python" not in told and "torch.where" not in told


def test_a_changed_example_is_mentioned() -> None:
    told = fail(Sums(), (torch.ones(1, 4), torch.ones(3, 4)), dynamic_shapes={"x": {0: "b"}})
    assert "captured at size 2 or more, so the example was changed: axis 0 of x from 1 to 2." in told, told


def test_an_error_of_torch_is_no_error_of_the_model() -> None:
    class OnlyEager(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * ([1] if not torch.compiler.is_exporting() else [])[0]  # as torch's own code fails

    told = fail(OnlyEager(), (X,))
    assert "torch.export fails inside of torch, where the model itself runs: IndexError: list index out of range" in told
