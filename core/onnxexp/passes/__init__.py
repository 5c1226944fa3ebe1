"""Rewrites of the captured graph and of the finished model."""

from __future__ import annotations

import onnx_ir as ir

from onnxexp.passes.batch_norm import FoldBatchNorm
from onnxexp.passes.concat import FlattenConcat

__all__ = ["clean_up"]


def clean_up(model: ir.Model, *, fold: bool) -> None:
    """The core's own passes on a finished model, in order; `fold` allows computing with the weights."""
    FlattenConcat()(model)
    if fold:
        FoldBatchNorm()(model)
