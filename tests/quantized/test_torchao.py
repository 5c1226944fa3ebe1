"""Models that torchao's `quantize_` changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp_quantized import Quantized
from tests.quantized.runtime import kernels
from tests.quantized.saturation import exact_sums
from tests.quantized.without_fusions import run_unfused

pytest.importorskip("torchao")
quantization = pytest.importorskip("torchao.quantization")
granularity = pytest.importorskip("torchao.quantization.granularity")

INT4 = {"weight_dtype": torch.int4}
CONFIGS: dict[str, Callable[[], Any]] = {
    "int8": quantization.Int8WeightOnlyConfig,
    "dynamic int8": quantization.Int8DynamicActivationInt8WeightConfig,
    "int4": lambda: quantization.IntxWeightOnlyConfig(**INT4, granularity=granularity.PerGroup(32)),
    "int4 by row": lambda: quantization.IntxWeightOnlyConfig(**INT4, granularity=granularity.PerAxis(0)),
    "dynamic int4": lambda: quantization.Int8DynamicActivationIntxWeightConfig(
        **INT4, weight_granularity=granularity.PerGroup(32)
    ),
    "float8": quantization.Float8WeightOnlyConfig,
}
STEP = {"dynamic int8", "dynamic int4"}
"""Flows that round activations: an element at a tie may be one step away."""


class Layers(nn.Module):
    """Linear layers, with a bias and without."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 96), nn.Linear(96, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(x)))


class Convolutions(nn.Module):
    """Convolutions with a residual sum and pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.head = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = nn.functional.max_pool2d(x + self.second(x), 2)
        return self.head(x.mean([2, 3]))


class Block(nn.Module):
    """A transformer block."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.values, self.out = (nn.Linear(64, 64) for _ in range(4))
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x: Tensor) -> Tensor:
        heads = (part(x).unflatten(-1, (4, 16)).transpose(1, 2) for part in (self.queries, self.keys, self.values))
        attended = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        x = self.norm(x + self.out(attended))
        return x + self.down(nn.functional.gelu(self.up(x)))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], dict[int, str]]] = {
    "layers": (Layers, (4, 64), {0: "batch"}),
    "convolutions": (Convolutions, (2, 3, 8, 8), {0: "batch"}),
    "block": (Block, (2, 5, 64), {0: "batch", 1: "tokens"}),
}


def quantized(name: str, config: str) -> tuple[nn.Module, Tensor, dict[int, str]]:
    torch.manual_seed(0)
    make, shape, dynamic = MODELS[name]
    model = make().eval().requires_grad_(False)
    quantization.quantize_(model, CONFIGS[config]())
    return model, torch.randn(shape), dynamic


def other_inputs(example: Tensor, dynamic: dict[int, str]) -> Iterator[Tensor]:
    for size in (1, 7):
        yield torch.randn([size if axis in dynamic else known for axis, known in enumerate(example.shape)])


def floats(program: onnxexp.ONNXProgram, model: nn.Module) -> list[str]:
    """List the float initializers that are as large as a quantized weight."""
    parts = [module for module in model.modules() if isinstance(module, nn.Linear)]
    sizes = {part.weight.numel() for part in parts}
    return [
        each.name
        for each in program.model_proto.graph.initializer
        if each.data_type == onnx.TensorProto.FLOAT and len(each.dims) > 1 and torch.Size(each.dims).numel() in sizes
    ]


def rows() -> Iterator[Any]:
    """Yield all models, configurations and opsets, few of them for the quick tier."""
    for name in MODELS:
        for config in CONFIGS:
            for opset in (10, 13, 17, 20, 21, 23):
                quick = (name, opset) == ("layers", 17) or (name != "convolutions" and opset == 21)
                yield pytest.param(name, config, opset, marks=() if quick else pytest.mark.full)


@exact_sums
@pytest.mark.parametrize(("name", "config", "opset"), rows())
def test_quantized_layers(name: str, config: str, opset: int) -> None:
    model, example, dynamic = quantized(name, config)
    before = dict(model.named_parameters())
    if config == "float8" and opset < 19:
        with pytest.raises(onnxexp.OpsetError, match="float8_e4m3fn"):
            onnxexp.export(model, (example,), opset_version=opset, dynamic_shapes=(dynamic,))
        return
    program = onnxexp.export(model, (example,), opset_version=opset, dynamic_shapes=(dynamic,))
    assert all(value is before[key] for key, value in model.named_parameters())
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert not floats(program, model)
    for x in (example, *other_inputs(example, dynamic)):
        expected = model(x)
        most = expected.abs().max()
        assert (run_unfused(program, x) - expected).abs().max() <= most * (0.02 if config in STEP else 1e-5)
        assert (program(x) - expected).abs().max() <= 0.02 * most


@pytest.mark.filterwarnings("ignore:Tracing fixes")
@pytest.mark.parametrize("config", sorted(CONFIGS.keys() - STEP))
def test_quantized_weights_in_a_trace(config: str) -> None:
    model, example, dynamic = quantized("layers", config)
    program = onnxexp.export(model, (example,), dynamic_shapes=(dynamic,), capture="trace", opset_version=21)
    assert not floats(program, model)
    for x in (example, *other_inputs(example, dynamic)):
        expected = model(x)
        assert (run_unfused(program, x) - expected).abs().max() <= expected.abs().max() * 1e-5


def types(program: onnxexp.ONNXProgram) -> set[str]:
    """Return the element types of the weights."""
    return {
        onnx.TensorProto.DataType.Name(each.data_type) for each in program.model_proto.graph.initializer if len(each.dims) > 1
    }


@pytest.mark.parametrize(
    ("config", "opset", "stored", "kernel"),
    [
        ("int8", 17, {"INT8"}, "MatMulNBits"),
        ("int4 by row", 17, {"INT8"}, "MatMulNBits"),
        ("int4 by row", 21, {"INT4"}, "MatMulNBits"),
        ("int4", 21, {"INT4", "FLOAT"}, "MatMulNBits"),
        ("dynamic int4", 21, {"INT4", "FLOAT"}, "MatMulNBits"),
        ("dynamic int8", 17, {"INT8"}, "MatMulInteger"),
    ],
)
def test_weights_have_their_width_and_integer_kernels(
    config: str, opset: int, stored: set[str], kernel: str, tmp_path: Path
) -> None:
    model, example, _ = quantized("layers", config)
    program = onnxexp.export(model, (example,), opset_version=opset)
    assert types(program) == stored
    found = kernels(program, tmp_path)
    assert found.count(kernel) == 2 and not {"MatMul", "Gemm", "DequantizeLinear"} & set(found)


@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.parametrize("config", ["int8", "int4", "int4 by row"])
def test_products_with_floats(config: str, opset: int, tmp_path: Path) -> None:
    """Weights keep their width in the file, and ONNX Runtime's results are torch's."""
    model, x, _ = quantized("layers", config)
    program = onnxexp.export(model, (x,), opset_version=opset, plugins=[Quantized(int8_products="none"), ...])
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert types(program) - {"FLOAT"} == {"INT8" if config == "int8" or opset == 17 else "INT4"} and not floats(program, model)
    assert not {"MatMulNBits", "DequantizeLinear"} & set(kernels(program, tmp_path))
    torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(("config", "most"), [("int8", 0.27), ("dynamic int8", 0.27), ("int4", 0.16), ("float8", 0.27)])
def test_size_of_the_file(config: str, most: float, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(512, 512, bias=False)).requires_grad_(False)
    floats = sum(parameter.nbytes for parameter in model.parameters())
    quantization.quantize_(model, CONFIGS[config]())
    onnxexp.export(model, (torch.randn(2, 512),), tmp_path / "model.onnx", opset_version=21)
    assert (tmp_path / "model.onnx").stat().st_size <= most * floats


def two_bits() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = Layers().requires_grad_(False)
    config = quantization.IntxWeightOnlyConfig(weight_dtype=torch.int2, granularity=granularity.PerGroup(32))
    quantization.quantize_(model, config)
    return model, torch.randn(3, 64)


@pytest.mark.parametrize(("opset", "stored"), [(20, "INT8"), (21, "INT4"), (25, "INT2")])
def test_two_bits(opset: int, stored: str) -> None:
    model, x = two_bits()
    program = onnxexp.export(model, (x,), opset_version=opset)
    assert stored in types(program)
    torch.testing.assert_close(run_unfused(program, x), model(x))


def test_a_width_that_the_opset_lacks_can_be_an_error() -> None:
    model, x = two_bits()
    with pytest.raises(
        onnxexp.OpsetError, match="a weight of 2 bits, from -2 to 1, and the target is opset 20; to fix this, use opset 25"
    ):
        onnxexp.export(model, (x,), opset_version=20, plugins=[Quantized(narrow="error"), ...])
    with pytest.raises(onnxexp.OptionError, match="narrow is 'wide'"):
        Quantized(narrow="wide")


@exact_sums
@pytest.mark.parametrize("decomposed", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("config", CONFIGS)
def test_given_programs(config: str, decomposed: bool) -> None:
    """A program is exported as the model is, also after torch decomposed it."""
    model, x, _ = quantized("layers", config)
    batch = torch.export.Dim("batch", min=2)
    given = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    program = onnxexp.export(given.run_decompositions() if decomposed else given, opset_version=21)
    assert types(program) - {"FLOAT"} <= ({"FLOAT8E4M3FN"} if config == "float8" else {"INT4", "INT8"})
    assert not floats(program, model)
    x = torch.randn(7, 64)
    assert (run_unfused(program, x) - model(x)).abs().max() <= 0.02 * model(x).abs().max()
