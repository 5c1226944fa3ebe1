"""Embeddings with quantized tables."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization

import onnxexp

CONFIGS = {8: quantization.float_qparams_weight_only_qconfig, 4: quantization.float_qparams_weight_only_qconfig_4bit}


def quantized(model: nn.Module, bits: int) -> nn.Module:
    """Convert a model, and replace the table of an nn.Embedding of 4 bits.

    torch converts such an embedding wrongly.
    """
    model.eval().qconfig = CONFIGS[bits]
    converted = quantization.convert(quantization.prepare(model))
    for name, module in list(converted.named_children()):
        if bits == 4 and type(module) is torch.ao.nn.quantized.Embedding:
            whole = torch.ao.nn.quantized.Embedding(module.num_embeddings, module.embedding_dim, dtype=torch.quint4x2)
            whole.set_weight(module.weight())
            setattr(converted, name, whole)
    return converted


def stored(program: onnxexp.ONNXProgram) -> dict[int, int]:
    """Count the bytes of each type in a file."""
    found: dict[int, int] = {}
    for initializer in program.model_proto.graph.initializer:
        found[initializer.data_type] = found.get(initializer.data_type, 0) + onnx.numpy_helper.to_array(initializer).nbytes
    return found


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("opset", [10, pytest.param(13, marks=pytest.mark.full), 20])
def test_embeddings(capture: str, bits: int, opset: int) -> None:
    torch.manual_seed(0)
    model = quantized(nn.Sequential(nn.Embedding(50, 12)), bits)
    indices = torch.randint(50, (3, 4))
    program = onnxexp.export(model, (indices,), capture=capture, opset_version=opset, dynamic_shapes=({0: "batch", 1: "time"},))
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert stored(program)[onnx.TensorProto.UINT8] <= 50 * 12 * bits // 8 + 2
    assert stored(program)[onnx.TensorProto.FLOAT] <= 2 * 50 * 4
    for sizes in [(3, 4), (1, 1), (2, 7)]:
        indices = torch.randint(50, sizes)
        torch.testing.assert_close(program(indices), model(indices), atol=1e-5, rtol=1e-5)


def test_a_table_that_torch_reads_wrongly_is_refused() -> None:
    model = nn.Sequential(nn.Embedding(50, 12)).eval()
    model.qconfig = CONFIGS[4]
    converted = quantization.convert(quantization.prepare(model))
    with pytest.raises(onnxexp.CaptureError, match="reads a table of torch.quint4x2 as codes of 8 bits"):
        onnxexp.export(converted, (torch.randint(50, (3, 4)),))


class Bag(nn.Module):
    """Bags of one size without offsets, or with offsets and weights."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 12, mode="sum", **options)

    def forward(self, indices: Tensor, offsets: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        return self.bag(indices, offsets, weights)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("bits", [8, 4])
def test_bags(capture: str, bits: int) -> None:
    torch.manual_seed(0)
    model = quantized(Bag(), bits)
    program = onnxexp.export(model, (torch.randint(50, (3, 4)),), capture=capture, dynamic_shapes=({0: "batch", 1: "size"},))
    assert stored(program)[onnx.TensorProto.UINT8] <= 50 * 12 * bits // 8 + 2
    indices = torch.randint(50, (2, 7))
    torch.testing.assert_close(program(indices), model(indices), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("last", [False, True])
def test_bags_with_offsets(capture: str, last: bool) -> None:
    torch.manual_seed(0)
    model = quantized(Bag(include_last_offset=last), 8)
    offsets = torch.tensor([0, 2, 5, 6] if last else [0, 2, 5])
    given = (torch.randint(50, (6,)), offsets, torch.rand(6))
    axes = ({0: "indices"}, {0: "bags"}, {0: "indices"})
    program = onnxexp.export(model, given, capture=capture, opset_version=17, dynamic_shapes=axes)
    onnx.checker.check_model(program.model_proto, full_check=True)
    given = (torch.randint(50, (9,)), torch.tensor([0, 4, 4, 8, 9] if last else [0, 4, 4, 8]), torch.rand(9))
    torch.testing.assert_close(program(*given), model(*given), atol=1e-5, rtol=1e-5)


class Bytes(nn.Module):
    """A table of bytes that a model stores, with its operators."""

    def __init__(self, bits: str) -> None:
        super().__init__()
        table = torch.randn(50, 12) * torch.logspace(-4, 4, 50).unsqueeze(1) if bits == "byte" else torch.randn(50, 12)
        table[7], table[8] = 0, -3.5
        self.bits = bits
        self.register_buffer("table", getattr(torch.ops.quantized, f"embedding_bag_{bits}_prepack")(table))

    def forward(self, indices: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        bags = getattr(torch.ops.quantized, f"embedding_bag_{self.bits}_rowwise_offsets")(self.table, indices, offsets)
        return bags, getattr(torch.ops.quantized, f"embedding_bag_{self.bits}_unpack")(self.table)


@pytest.mark.parametrize("capture", [pytest.param("export", marks=pytest.mark.full), "trace"])
@pytest.mark.parametrize("bits", ["byte", "4bit", pytest.param("2bit", marks=pytest.mark.full)])
def test_tables_of_bytes(capture: str, bits: str) -> None:
    torch.manual_seed(0)
    model = Bytes(bits)
    given = (torch.randint(50, (6,)), torch.tensor([0, 2, 5]))
    program = onnxexp.export(model, given, capture=capture, opset_version=13, dynamic_shapes=({0: "indices"}, {0: "bags"}))
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert stored(program)[onnx.TensorProto.FLOAT] < 50 * 12  # scales at most
    given = (torch.arange(50), torch.tensor([0, 4, 4, 8]))
    torch.testing.assert_close(program(*given), model(*given), atol=1e-5, rtol=1e-5)
