"""Cells of recurrent layers: one node each, as in torch.export's frontend."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_CELL = "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"
_CELLS = {
    "lstm_cell": f"(Tensor input, Tensor[] hx, {_CELL}) -> (Tensor, Tensor)",
    **dict.fromkeys(("gru_cell", "rnn_tanh_cell", "rnn_relu_cell"), f"(Tensor input, Tensor hx, {_CELL}) -> Tensor"),
}
NAMES = {f"onnxexp::{cell}": f"aten::{cell}" for cell in _CELLS}
"""Our operators, each with torch's for the neutral graph."""


@functools.cache
def _library() -> Any:
    library: Any = torch.library.Library("onnxexp", "FRAGMENT")  # type: ignore[no-untyped-call]
    for cell, schema in _CELLS.items():
        library.define(cell + schema)
        library.impl(cell, getattr(torch.ops.aten, cell).default, "CompositeExplicitAutograd")  # by the cell's name
    return library


@functools.cache
def whole_cells() -> tuple[tuple[Any, str, Callable[..., Any]], ...]:
    """List replacements (owner, name, function) that trace a cell as one node."""
    _library()
    functions: Any = torch._VF
    return tuple((functions, cell, functools.partial(_traced, getattr(torch.ops.onnxexp, cell))) for cell in _CELLS)


def _traced(whole: Callable[..., Any], original: Callable[..., Any], *args: Any) -> Any:
    return whole(*args) if torch._C._is_tracing() else original(*args)
