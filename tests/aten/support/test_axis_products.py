"""support/axis_products.py: axes whose product is another axis."""

from __future__ import annotations

import pytest

from onnxexp.graph import SymbolicSize
from onnxexp_aten.support.axis_products import partition


@pytest.mark.parametrize(
    ("fine", "coarse", "groups"),
    [
        ([2, 3, 4], [6, 4], [[0, 1], [2]]),
        (["batch", 2, 8], ["2*batch", 8], [[0, 1], [2]]),
        ([2, "past + sequence", 8], ["2*past + 2*sequence", 8], [[0, 1], [2]]),
        (["batch", "sequence", 4, 8], ["batch", "sequence", 32], [[0], [1], [2, 3]]),
        ([2, 1], [2], [[0, 1]]),
        ([1, 2], [2], [[0, 1]]),
        ([2, 3], [3, 2], None),
        ([2, 3], [6, 2], None),
        (["batch", 3], ["sequence", 3], None),
        ([2], [], None),
    ],
)
def test_partition(fine, coarse, groups):
    fine, coarse = ([SymbolicSize(size) if isinstance(size, str) else size for size in sizes] for sizes in (fine, coarse))
    assert partition(fine, coarse) == groups
