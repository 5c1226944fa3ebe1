"""Torch tensors as ONNX tensors."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
import torch

from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._errors import SerializeError
from tests.core.tensor_models import noise, raw

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.flatten(1).t(),
    "transposed tall": lambda t: t.reshape(-1, 36).t(),
    "batches transposed": lambda t: t.transpose(1, 2),
    "permuted": lambda t: t.permute(2, 1, 0),
    "sliced": lambda t: t[::2, 3:70],
    "one column": lambda t: t[:, :, 1],
    "stepped": lambda t: t.view(-1)[::3],
    "expanded": lambda t: t[0, :, :1].expand(128, 500),
    "expanded in front": lambda t: t[5:6].expand(3, 128, 36),
    "scalar": lambda t: t[0, 0, 0],
    "empty": lambda t: t[:, :0].transpose(0, 1),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64, torch.complex128], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_views_are_written_as_their_elements(dtype: torch.dtype, view: str) -> None:
    tensor = VIEWS[view](noise(dtype, 96, 128, 36))
    wrapped = TorchTensor(tensor)
    file = io.BytesIO()
    wrapped.tofile(file)
    assert file.getvalue() == wrapped.tobytes() == raw(tensor)
    assert wrapped.nbytes == len(raw(tensor))
    assert wrapped.numpy().tobytes() == raw(tensor)
    assert wrapped.numpy().dtype == wrapped.dtype.numpy()


def test_lazy_conjugation_and_negation() -> None:
    conjugate = noise(torch.complex64, 300, 500).t().conj()
    negative = conjugate.imag
    assert conjugate.is_conj() and negative.is_neg()
    for tensor in (conjugate, negative):
        assert TorchTensor(tensor).tobytes() == raw(tensor) == TorchTensor(tensor).numpy().tobytes()


def test_tensors_that_autograd_knows() -> None:
    parameter = torch.nn.Parameter(torch.randn(300, 500))
    with torch.inference_mode():
        inference = torch.randn(300, 500)
    for tensor in (parameter, parameter * 2, inference):
        assert TorchTensor(tensor.t()).tobytes() == raw(tensor.t())
    with torch.inference_mode():
        assert TorchTensor(parameter.t()).tobytes() == raw(parameter.t())
    assert np.shares_memory(TorchTensor(parameter).numpy(), parameter.detach().numpy())
    assert np.asarray(TorchTensor(parameter)).shape == (300, 500)
    assert np.array_equal(np.from_dlpack(TorchTensor(parameter)), parameter.detach().numpy())


def test_sparse_and_quantized_tensors_have_no_onnx_form() -> None:
    with pytest.raises(SerializeError, match="to_dense"):
        TorchTensor(torch.eye(3).to_sparse())
    with pytest.raises(TypeError, match="quint8"):
        TorchTensor(torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.quint8))
