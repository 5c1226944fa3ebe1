"""Each architecture agrees with eager, part by part, at unseen sizes."""

from __future__ import annotations

import pytest

import onnxexp
from onnxexp_transformers.tasks import task_of

from .architecture import Architecture, architectures


def rows() -> list[object]:
    """List the architectures as parameters: most are full, some must fail."""
    return [
        pytest.param(
            row,
            id=row.id,
            marks=[
                *([] if row.quick else [pytest.mark.full]),
                *([pytest.mark.xfail(reason=row.fails, raises=onnxexp.OnnxExporterError, strict=True)] if row.fails else []),
            ],
        )
        for row in architectures()
    ]


@pytest.mark.parametrize("row", rows())
def test_agrees_with_eager(row: Architecture) -> None:
    """Export, and compare all outputs on the example and at the row's sizes."""
    model = row.model()
    exported = row.export(model)
    for sizes in ({}, *row.sizes):
        for part in task_of(row.task).parts(model, **{**row.example, **sizes}):
            exported.programs[part.name].verify(kwargs=part.inputs)
