# ruff: noqa: UP006, UP045 - TorchScript reads this file, and not all of today's Python
"""Lists of unknown length and optional results, as ONNX's Sequence and Optional."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple  # noqa: UP035 - TorchScript reads these

import onnx_ir as ir
import pytest
import torch
from torch import Tensor

import onnxexp
from onnxexp import OpsetError, VerificationError

from .running import SEQUENCES, Program, exported, programs

OPTIONALS = (16, 17, 20, 23)
X, MORE = torch.arange(6.0).reshape(2, 3) - 1, torch.arange(15.0).reshape(5, 3)
ROWS = [{0}]
SIZES = [(MORE,), (X[:1],), (X[:0],)]
SIGNS = [(X,), (-MORE,), (MORE,), (X[:0],)]


def rows(x: Tensor) -> List[Tensor]:
    out: List[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[i] * i)
    return out


def ragged(x: Tensor) -> List[Tensor]:
    out: List[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[:i] * i)
    return out


def pieces(x: Tensor) -> List[Tensor]:
    return torch.split(x, 2)


def among_others(x: Tensor) -> Tuple[Tensor, Dict[str, List[Tensor]], int]:
    return x + 1, {"rows": torch.unbind(x), "all": [x, x * 2]}, 3


@programs(
    Program(rows, X, at=SIZES, dynamic=ROWS, opsets=SEQUENCES),
    Program(ragged, X, at=SIZES, dynamic=ROWS, opsets=SEQUENCES),
    Program(pieces, X, at=SIZES[:2], dynamic=ROWS, opsets=(11, *SEQUENCES)),
    Program(among_others, X, at=SIZES, dynamic=ROWS, opsets=SEQUENCES),
)
def test_a_list_of_unknown_length_is_a_sequence(run) -> None:
    run()


def slices(x: Tensor) -> Tuple[List[Tensor], List[Tensor], List[Tensor], List[Tensor]]:
    found = ragged(x)
    return found[1:], found[:-1], found[-2:3], found[1::2]


def slices_of_rows(x: Tensor) -> Tuple[List[Tensor], List[Tensor]]:
    found = rows(x)
    return found[1:], found[: int(x.sum()) % 3]


def reversed_lists(x: Tensor) -> Tuple[List[Tensor], List[Tensor]]:
    found, others = rows(x), ragged(x)
    found.reverse()
    others.reverse()
    return found, others


def extended_lists(x: Tensor) -> Tuple[List[Tensor], List[Tensor], List[Tensor]]:
    found, more = rows(x), ragged(x)
    found.extend(rows(x + 1))
    return found, more + more, [x * 2] + more  # noqa: RUF005 - TorchScript has no star


def read_behind(x: Tensor) -> Tensor:
    found: List[Tensor] = []
    for i in range(x.size(0)):
        found.append(x[i] * i)
        if i > 0:
            found[-1] = found[-1] + found[-2]
    return found[-1]


@programs(
    Program(slices, X, at=SIZES, dynamic=ROWS, opsets=SEQUENCES),
    Program(slices_of_rows, X, at=SIZES, dynamic=ROWS, opsets=SEQUENCES),
    Program(reversed_lists, X, at=SIZES, dynamic=ROWS, opsets=SEQUENCES),
    Program(extended_lists, X, at=SIZES, dynamic=ROWS, opsets=SEQUENCES),
    Program(read_behind, X, at=SIZES[:2], dynamic=ROWS, opsets=SEQUENCES),
)
def test_lists_cut_reversed_and_joined(run) -> None:
    run()


def maybe(x: Tensor) -> Optional[Tensor]:
    if x.sum() > 0:
        return x
    return None


def last_positive(x: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
    found: Optional[Tensor] = None
    for i in range(x.size(0)):
        if x[i].sum() > 0:
            found = x[i] * 2
    return x + 1, found


def first_row(x: Tensor) -> Optional[Tensor]:
    found: Optional[Tensor] = None
    for i in range(x.size(0)):
        if found is None:
            found = x[i]
        else:
            found = found + x[i]
    return found


def swapped(x: Tensor) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    one: Optional[Tensor] = None
    other: Optional[Tensor] = x.sum(0)
    for _ in range(x.size(0)):
        one, other = other, one
    return one, other


@programs(
    *(
        Program(
            fn,
            example,
            at=[(X,), (-MORE,), (MORE,), (X[:0],)],
            dynamic=ROWS,
            opsets=(16, 17, 20, 23),
            name=f"{fn.__name__}{kind}",
        )
        for fn in (maybe, last_positive, first_row, swapped)
        for kind, example in (("", X), ("-none", -X))
    )
)
def test_a_result_that_may_be_none_is_an_optional(run) -> None:
    run()


def test_the_types_in_the_file() -> None:
    program = exported(rows, (X,), capture="script", dynamic_shapes=({0: "n"},))
    assert isinstance(program.model.graph.outputs[0].type, ir.SequenceType)
    program = exported(maybe, (X,), capture="script", dynamic_shapes=({0: "n"},))
    assert isinstance(program.model.graph.outputs[0].type, ir.OptionalType)


@pytest.mark.parametrize("fn", [rows, among_others, maybe, last_positive])
def test_they_are_verified(fn) -> None:
    program = exported(fn, (X,), capture="script", dynamic_shapes=({0: "n"},))
    program.verify()
    program.verify((MORE,))
    program.verify((-X,))


def test_a_wrong_element_is_named() -> None:
    program = exported(rows, (X,), capture="script", dynamic_shapes=({0: "n"},))
    program.eager = lambda x: [x[0] * 0, x[1] * 7]
    with pytest.raises(VerificationError, match=r"output\[1\]: float32\[3\], 3 of 3 elements"):
        program.verify()
    program.eager = lambda x: [x[0]]
    with pytest.raises(VerificationError, match="the original returns 1 values at these inputs, the exported model 2"):
        program.verify()


@pytest.mark.parametrize(
    ("fn", "opset", "message"),
    [
        (pieces, 9, "needs ONNX's sequences, there from opset 11 on"),
        (maybe, 15, "needs ONNX's optionals, there from opset 16 on"),
    ],
)
def test_an_opset_without_them(fn, opset, message) -> None:
    with pytest.raises(OpsetError, match=message):
        onnxexp.export(fn, (X,), capture="script", opset_version=opset, dynamic_shapes=({0: "n"},))
