"""TorchScript's integers for dtypes, layouts and formats, against torch's own."""

from __future__ import annotations

import pytest
import torch

from onnxexp._torch_ops.type_codes import DTYPES, MEMORY_FORMATS, TYPE_CODES


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype is not None and not str(dtype).startswith("torch.q")])
def test_a_dtypes_number_is_torchs(dtype: torch.dtype) -> None:
    """A graph's constant shows the number that torch has for a dtype."""
    graph = torch._C.Graph()
    assert graph.insertConstant(dtype).toIValue() == TYPE_CODES.code(dtype)
    assert DTYPES[TYPE_CODES.code(dtype)] is dtype


def test_a_layouts_number_is_torchs() -> None:
    assert torch._C.Graph().insertConstant(torch.strided).toIValue() == TYPE_CODES.code(torch.strided)


@pytest.mark.parametrize("memory_format", MEMORY_FORMATS)
def test_a_memory_formats_number_is_torchs(memory_format: torch.memory_format) -> None:
    """A trace shows torch's number of a memory format."""
    example = torch.ones([1] * (5 if memory_format is torch.channels_last_3d else 4))
    traced = torch.jit.trace(lambda x: x.clone(memory_format=memory_format), (example,))
    assert list(traced.graph.findNode("aten::clone").inputs())[1].toIValue() == TYPE_CODES.code(memory_format)
