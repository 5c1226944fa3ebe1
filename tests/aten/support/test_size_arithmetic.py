"""support/size_arithmetic.py: products of sizes, and axes that are such products."""

from __future__ import annotations

import pytest

from onnxexp_aten.support.size_arithmetic import partition, product_of


@pytest.mark.parametrize(
    ("sizes", "product"),
    [
        ([], 1),
        ([2, 3], 6),
        (["batch"], "batch"),
        (["batch", 1], "batch"),
        ([4, "batch"], "4*batch"),
        (["sequence", 2, "batch"], "2*batch*sequence"),
        (["past + sequence"], "past + sequence"),
        ([2, "past + sequence"], None),
    ],
)
def test_product(sizes, product):
    assert product_of(sizes) == product


@pytest.mark.parametrize(
    ("fine", "coarse", "groups"),
    [
        ([2, 3, 4], [6, 4], [[0, 1], [2]]),
        (["batch", 2, 8], ["2*batch", 8], [[0, 1], [2]]),
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
    assert partition(fine, coarse) == groups
