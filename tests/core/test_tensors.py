"""Torch tensors as ONNX tensors, and which of them are equal."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
import torch

from onnxexp.dedup import deduplicate, memory_key, same_bits, sample_key
from onnxexp.errors import SerializeError
from onnxexp.tensors import TorchTensor
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
    assert file.getvalue() == wrapped.tobytes() == wrapped.memory() == raw(tensor)
    assert wrapped.nbytes == len(raw(tensor))
    assert wrapped.numpy().tobytes() == raw(tensor)
    assert wrapped.numpy().dtype == wrapped.dtype.numpy()


def test_lazy_conjugation_and_negation() -> None:
    conjugate = noise(torch.complex64, 300, 500).t().conj()
    negative = conjugate.imag
    assert conjugate.is_conj() and negative.is_neg()
    for tensor in (conjugate, negative):
        assert (
            TorchTensor(tensor).tobytes() == raw(tensor) == TorchTensor(tensor).memory() == TorchTensor(tensor).numpy().tobytes()
        )


def test_tensors_that_autograd_knows() -> None:
    parameter = torch.nn.Parameter(torch.randn(300, 500))
    with torch.inference_mode():
        inference = torch.randn(300, 500)
    for tensor in (parameter, parameter * 2, inference):
        assert TorchTensor(tensor.t()).tobytes() == raw(tensor.t()) == TorchTensor(tensor.t()).memory()
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


def test_tied_weights_are_one() -> None:
    weight = torch.nn.Parameter(torch.randn(30, 40))
    tied = {"a": weight, "b": weight.detach(), "c": weight[:], "turned": weight.t(), "part": weight[:10], "row": weight[0]}
    assert deduplicate(tied) == {"a": "a", "b": "a", "c": "a", "turned": "turned", "part": "part", "row": "row"}
    assert memory_key(weight) == memory_key(weight[:]) != memory_key(weight.view(40, 30))


def test_equal_contents_are_one_wherever_they_lie() -> None:
    weight = noise(torch.float32, 30, 40)
    assert weight.isnan().any()
    other = weight.clone()
    other.view(torch.int32)[17, 23] ^= 1  # not among the samples
    assert sample_key(other) == sample_key(weight) and not same_bits(other, weight)
    tensors = {
        "a": weight,
        "copy": weight.clone(),
        "strided": weight.t().contiguous().t(),
        "other": other,
        "other copy": other.clone(),
        "as int": weight.view(torch.int32),
        "reshaped": weight.view(1200).clone(),
    }
    expected = {name: name for name in tensors} | {"copy": "a", "strided": "a", "other copy": "other"}
    assert deduplicate(tensors) == expected


def test_zeros_of_either_sign_differ() -> None:
    tensors = {"plus": torch.zeros(5), "minus": -torch.zeros(5), "again": torch.zeros(5), "half": torch.zeros(5).half()}
    assert deduplicate(tensors) == {"plus": "plus", "minus": "minus", "again": "plus", "half": "half"}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.bool, torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 1, 500), (2, 3, 4, 5, 6)], ids=str)
def test_equality_of_any_dtype_and_shape(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = noise(dtype, *shape, 1).reshape(shape)
    assert deduplicate({"a": tensor, "b": tensor.clone(), "c": tensor}) == {"a": "a", "b": "a", "c": "a"}


def test_tensors_without_data_are_equal_only_to_themselves() -> None:
    one, other = torch.empty(3, device="meta"), torch.empty(3, device="meta")
    assert deduplicate({"a": one, "b": other, "c": one}) == {"a": "a", "b": "b", "c": "a"}
