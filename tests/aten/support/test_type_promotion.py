"""support/type_promotion.py: type promotion agrees with torch's own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

from onnxexp import Builder
from onnxexp._neutral_graph import TensorType
from onnxexp_aten.support.type_promotion import promoted_dtype

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.complex128,
)  # fmt: skip
OPERANDS: list[Any] = [
    *(torch.empty(sizes, dtype=dtype, device="meta") for dtype in DTYPES for sizes in ((), (2,))),
    True,
    2,
    0.5,
    1j,
]


@pytest.mark.parametrize("default", [torch.float32, torch.float64], ids=str)
def test_promotion_is_torchs(default: torch.dtype) -> None:
    op = Builder(20)
    operands = [
        op.input("x", TensorType(each.dtype, tuple(each.shape))) if isinstance(each, torch.Tensor) else each for each in OPERANDS
    ]
    pairs = list(zip(OPERANDS, operands, strict=True))
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        for chosen in (*itertools.product(pairs, repeat=2), *itertools.product(pairs[::3], repeat=3)):
            eager, ours = zip(*chosen, strict=True)
            for floating, kind in ((False, KIND.DEFAULT), (True, KIND.INT_TO_FLOAT)):
                wanted = elementwise_dtypes(*eager, type_promotion_kind=kind)[1]
                assert promoted_dtype(*ours, None, floating=floating) is wanted, (eager, floating)
    finally:
        torch.set_default_dtype(before)
