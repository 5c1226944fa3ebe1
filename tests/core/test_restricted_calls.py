"""Restricted sizes of a program: its metadata, and calls that it refuses."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import nn
from torch.export import Dim

import onnxexp
from onnxexp._errors import OnnxExporterError
from onnxexp._program.program import ONNXProgram
from tests.torch_versions import RELEASE

pytest.importorskip("onnxexp_aten", reason="the operators are the aten plugin's")


class Model(nn.Module):
    """A function as a module, for torch.export.export."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def longer_than_4(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 4 else x * 3


def even(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] % 2 == 0 else x * 3


def shorter(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] < y.shape[0] else x * 3


def counted(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k if k > 2 else x


def exported(model: Callable[..., Any], args: tuple[Any, ...], shapes: Any, **options: Any) -> ONNXProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnxexp.export(model, args, dynamic_shapes=shapes, capture="export", **options)


X = torch.rand(8, 3)
N = ({0: "n"},)
CASES = [
    (longer_than_4, (X,), N, "n > 4", [(X[:5],)], [(X[:4],), (X[:1],), (X[:0],)]),
    (even, (X,), N, "n % 2 == 0", [(X[:2],), (X[:0],)], [(X[:3],)]),
    (even, (X,), ({0: Dim.AUTO},), "x_dim_0 % 2 == 0", [(X[:2],)], [(X[:3],)]),
    (lambda x: even(longer_than_4(x)), (X,), N, "n > 4; n % 2 == 0", [(X[:6],)], [(X[:5],), (X[:2],)]),
    (shorter, (X[:5], X), ({0: "n"}, {0: "m"}), "n < m", [(X[:2], X[:3])], [(X, X), (X, X[:1])]),
    (counted, (X, 5), ({0: "n"}, "k"), "k > 2", [(X[:1], 3)], [(X, 2), (X, -5)]),
    (lambda x: x[:5], (X,), N, "n >= 5", [(X[:5],)], [(X[:4],)]),
    (lambda x: x + 1, (X,), ({0: Dim("n", min=4, max=9)},), "n >= 4; n <= 9", [(X[:4],)], [(X[:3],), (torch.rand(10, 3),)]),
    (lambda x: x + 1, (X,), ({0: Dim.DYNAMIC(max=9)},), "x_dim_0 <= 9", [(X[:1],)], [(torch.rand(10, 3),)]),
    (lambda x: x + 1, (X,), ({0: 2 * Dim("half", min=3, max=6)},), "x_dim_0 >= 6; x_dim_0 <= 12", [(X[:6],)], [(X[:4],)]),
]


@pytest.mark.parametrize(("model", "args", "shapes", "text", "inside", "outside"), CASES)
def test_sizes_outside_are_refused(
    model: Callable[..., Any], args: Any, shapes: Any, text: str, inside: list[Any], outside: list[Any]
) -> None:
    program = exported(model, args, shapes)
    assert program.model.metadata_props["onnxexp.restrictions"] == text
    for call in inside:
        torch.testing.assert_close(program(*call), model(*call))
    for call in outside:
        with pytest.raises(OnnxExporterError, match="this program is right only where .*; the call has other sizes"):
            program(*call)
        with pytest.raises(OnnxExporterError, match="this program is right only where "):
            program.verify(call)


@pytest.mark.parametrize("args", [(X[0],), (X[:, None],), (X.numpy(),)])
def test_arguments_of_another_kind(args: Any) -> None:
    """Another rank has its own message; numpy's arrays have sizes too."""
    program = exported(longer_than_4, (X,), N)
    if args[0].ndim == 2:
        torch.testing.assert_close(program(*args), longer_than_4(X))
        with pytest.raises(OnnxExporterError, match="n > 4"):
            program(args[0][:2])
    else:
        with pytest.raises(OnnxExporterError, match=r"n > 4|input x is float32\[n, 3\], the call gives"):
            program(*args)


def test_the_metadata_is_in_the_file() -> None:
    file = io.BytesIO()
    exported(longer_than_4, (X,), N, f=file)
    properties = {entry.key: entry.value for entry in onnx.load_model_from_string(file.getvalue()).metadata_props}
    assert properties["onnxexp.restrictions"] == "n > 4"


@pytest.mark.parametrize("shapes", [None, N, ({0: Dim("n", min=1)},), ({0: Dim("n")},), ({0: Dim.AUTO},)])
def test_without_restrictions_there_is_no_metadata(shapes: Any) -> None:
    assert "onnxexp.restrictions" not in exported(lambda x: x.relu(), (X,), shapes).model.metadata_props


@pytest.mark.parametrize(
    ("model", "shapes", "text", "warned"),
    [
        (longer_than_4, ({0: Dim.DYNAMIC},), "x_dim_0 >= 5; x_dim_0 > 4", True),
        (even, ({0: Dim.DYNAMIC},), "x_dim_0 % 2 == 0", True),
        (lambda x: x + 1, ({0: Dim("n", min=4, max=9)},), "x_dim_0 >= 4; x_dim_0 <= 9", False),
        (lambda x: x + 1, ({0: Dim("n")},), None, False),
        (lambda x: x + 1, None, None, False),
    ],
)
def test_a_given_program(model: Callable[..., Any], shapes: Any, text: str | None, warned: bool) -> None:
    given = torch.export.export(Model(model), (X,), dynamic_shapes=shapes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(given)
    assert bool(caught) == warned
    assert program.model.metadata_props.get("onnxexp.restrictions") == text
    torch.testing.assert_close(program(X), model(X))
    if text is not None:
        with pytest.raises(OnnxExporterError, match="right only where"):
            program(X[:3])


def shares_a_size(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sum() + torch.ones(y.shape[0])


def wider(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if max(x.shape[0], x.shape[1]) > 7 else x * 3


ROWS = {0: Dim.DYNAMIC}
LARGER = "max(x_dim_0, x_dim_1) > 7" if RELEASE >= (2, 14) else "x_dim_0 > x_dim_1; x_dim_0 > 7"
"""The same condition: torch 2.14 keeps the maximum, earlier ones decide which size is larger."""
STORED = [
    (longer_than_4, (X,), (ROWS,), "x_dim_0 >= 5", False, [(X[:5],)], [(X[:4],)]),
    (even, (X,), (ROWS,), "x_dim_0 % 2 == 0", True, [(X[:2],)], [(X[:3],)]),
    (shorter, (X[:5].clone(), X), (ROWS, ROWS), "y_dim_0 >= 3; x_dim_0 < y_dim_0", True, [(X[:2], X[:3])], [(X, X), (X, X[:1])]),
    (wider, (X,), ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},), LARGER, True, [(X,)], [(X[:3],)]),
    (lambda x: x[:5], (X,), (ROWS,), "x_dim_0 >= 5", False, [(X[:5],)], [(X[:4],)]),
    (lambda x: torch.cat([x, x[1:]]), (X,), (ROWS,), "x_dim_0 - 1 != 1", False, [(X[:3],)], [(X[:2],)]),
    (lambda x: x + 1, (X,), ({0: Dim("n", min=4, max=9)},), "x_dim_0 >= 4; x_dim_0 <= 9", False, [(X[:4],)], [(X[:3],)]),
    (lambda x: x.reshape(-1, 6), (X,), (ROWS,), "(3*x_dim_0) % 6 == 0; x_dim_0//2 != 1", True, [(X[:4],)], [(X[:3],)]),
]


@pytest.mark.parametrize(("model", "args", "shapes", "text", "warned", "inside", "outside"), STORED)
def test_a_program_from_a_file(
    model: Callable[..., Any], args: Any, shapes: Any, text: str, warned: bool, inside: list[Any], outside: list[Any]
) -> None:
    """A file has guards without lines; the warning omits those that torch may make."""
    program = loaded(model, args, shapes, warned)
    assert program.model.metadata_props.get("onnxexp.restrictions") == text
    for call in inside:
        torch.testing.assert_close(program(*call), model(*call))
    for call in outside:
        with pytest.raises(OnnxExporterError, match="this program is right only where "):
            program(*call)


def loaded(model: Callable[..., Any], args: Any, shapes: Any, warned: bool) -> ONNXProgram:
    """Export a program that was saved to a file and loaded from it."""
    module = Model(model) if len(args) == 1 else Pair(model)
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, args, dynamic_shapes=shapes), file)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(torch.export.load(io.BytesIO(file.getvalue())))
    assert ["(a guard of the given program)" in str(each.message) for each in caught] == [True] * warned
    return program


def test_guards_that_fail() -> None:
    """torch takes the size of the tensor that the example is a view of for its own."""
    given = torch.export.export(Pair(shorter), (X[:5], X), dynamic_shapes=(ROWS, ROWS))
    file = io.BytesIO()
    torch.export.save(given, file)
    with pytest.warns(UserWarning, match=r"fails in its guards, which are not checked: L\['x'\].size\(\)\[0\] < "):
        onnxexp.export(torch.export.load(io.BytesIO(file.getvalue())))


class Pair(Model):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:  # type: ignore[override]
        return self.function(x, y)


N_DIM = Dim("n")


@pytest.mark.parametrize("given", ["module", "program", "file"])
@pytest.mark.parametrize(
    ("shapes", "rows", "wrong"),
    [(({0: N_DIM}, {0: N_DIM}), 4, 5), (({0: N_DIM}, {0: N_DIM + 1}), 5, 4), (({0: N_DIM}, {0: 2 * N_DIM}), 8, 4)],
    ids=["equal", "one longer", "twice"],
)
def test_sizes_that_were_stated_to_be_related(given: str, shapes: Any, rows: int, wrong: int) -> None:
    args = X[:4], torch.rand(rows, 3)
    if given == "file":
        program = loaded(shares_a_size, args, shapes, warned=False)
    elif given == "program":
        program = onnxexp.export(torch.export.export(Pair(shares_a_size), args, dynamic_shapes=shapes))
    else:
        program = exported(Pair(shares_a_size), args, shapes)
    torch.testing.assert_close(program(*args), shares_a_size(*args))
    with pytest.raises(OnnxExporterError, match=r"axis 0 of input y is .*, which is \d in this call, but it has \d elements"):
        program(X[:4], torch.rand(wrong, 3))
