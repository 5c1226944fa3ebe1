"""Models prepared for quantization-aware training, exported without a conversion."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.nn.quantized import FloatFunctional
from torch.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize

import onnxexp


class Convolutions(nn.Module):
    """Convolutions with batch norms, a residual sum, pooling, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.norm, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.second, self.second_norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.sum, self.linear = FloatFunctional(), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.first(self.quant(x))))
        x = nn.functional.max_pool2d(self.sum.add(x, self.second_norm(self.second(x))), 2)
        return self.dequant(self.linear(x.mean([2, 3])))

    def fuse(self) -> nn.Module:
        return quantization.fuse_modules_qat(self, [["first", "norm", "relu"], ["second", "second_norm"]])


class Block(nn.Module):
    """Self-attention and a feed-forward part, with residual sums."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.qkv, self.out, self.up, self.down = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.norm, self.relu = nn.LayerNorm(16), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.quant(x)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v))
        return self.dequant(self.down(self.relu(self.up(self.norm(x)))))

    def fuse(self) -> nn.Module:
        return self


def trained(
    model: Convolutions | Block, example: Tensor, config: quantization.QConfig, *, observing: bool = False
) -> Convolutions | Block:
    """Prepare a model, and run three steps without an optimizer."""
    model.train()
    prepared = model.fuse()
    prepared.qconfig = config
    prepared = quantization.prepare_qat(prepared)
    for _ in range(3):
        prepared(example + torch.randn_like(example))
    if not observing:
        prepared.apply(quantization.disable_observer)
    return prepared.eval()


def agree(program: onnxexp.ONNXProgram, model: nn.Module, *inputs: Tensor, quantum: float) -> None:
    """Compare with eager: closely without fusions, roughly with integer kernels."""
    expected = model(*inputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
    feeds = {value.name: x.numpy() for value, x in zip(session.get_inputs(), inputs, strict=True)}
    difference = (torch.from_numpy(session.run(None, feeds)[0]) - expected).abs() / quantum
    assert difference.max() <= 1.01
    assert (difference > 0.01).float().mean() <= 0.01
    # A kernel rounds a code differently here and there, and the layers after it pass that on.
    assert ((program(*inputs) - expected).abs() / quantum).max() <= 3.01


def integers_only(program: onnxexp.ONNXProgram) -> bool:
    """Return whether each float in the file is a scale or a bias."""
    initializers = program.model_proto.graph.initializer
    return all(
        max(each.dims, default=1) == math.prod(each.dims) for each in initializers if each.data_type == onnx.TensorProto.FLOAT
    )


def last_scale(model: nn.Module) -> float:
    layer = model.linear if hasattr(model, "linear") else model.down
    return float(layer.activation_post_process.scale)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("backend", ["fbgemm", pytest.param("qnnpack", marks=pytest.mark.full)])
@pytest.mark.parametrize("version", [0, 1], ids=["separate", "fused"])
@pytest.mark.parametrize("kind", [Convolutions, Block])
def test_prepared_models(capture: str, backend: str, version: int, kind: Callable[[], Convolutions | Block]) -> None:
    """Weights are integers in the file, although the model has floats."""
    torch.manual_seed(0)
    convolutional = kind is Convolutions
    example = torch.randn(2, 3, 8, 8) if convolutional else torch.randn(2, 5, 16)
    model = trained(kind(), example, quantization.get_default_qat_qconfig(backend, version))
    before = {name: buffer.clone() for name, buffer in model.state_dict().items()}
    program = onnxexp.export(
        model, (example,), capture=capture, opset_version=17, dynamic_shapes=({0: "batch", 2 if convolutional else 1: "size"},)
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.state_dict().items())
    assert integers_only(program)
    assert not {"BatchNormalization", "Div", "Round"} & {node.op_type for node in program.model.graph if convolutional}
    for sizes in [(2, 8), (1, 6), (5, 13)]:
        x = torch.randn(sizes[0], 3, sizes[1], 8) if convolutional else torch.randn(*sizes, 16)
        agree(program, model, x, quantum=last_scale(model))


@pytest.mark.parametrize("opset", [10, 11, 12, 13, 20, 21, 23])
def test_opsets(opset: int) -> None:
    torch.manual_seed(0)
    example = torch.randn(2, 3, 8, 8)
    model = trained(Convolutions(), example, quantization.get_default_qat_qconfig("fbgemm"))
    program = onnxexp.export(model, (example,), opset_version=opset, dynamic_shapes=({0: "batch"},))
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert integers_only(program)
    agree(program, model, torch.randn(3, 3, 8, 8), quantum=last_scale(model))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_fx_graph_mode(capture: str) -> None:
    from torch.ao.quantization.quantize_fx import prepare_qat_fx

    torch.manual_seed(0)
    example = torch.randn(2, 3, 8, 8)
    mapping = quantization.get_default_qat_qconfig_mapping("fbgemm")
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(6), nn.Flatten(), nn.Linear(8, 4))
    prepared = prepare_qat_fx(layers.train(), mapping, (example,))
    prepared(example)
    prepared.apply(quantization.disable_observer)
    model = prepared.eval()
    program = onnxexp.export(model, (example,), capture=capture, dynamic_shapes=({0: "batch"},))
    assert integers_only(program)
    agree(program, model, torch.randn(5, 3, 8, 8), quantum=float([*model.children()][-1].scale))


def learnable(**options: object) -> quantization.QConfig:
    return quantization.QConfig(
        activation=_LearnableFakeQuantize.with_args(
            observer=quantization.MovingAverageMinMaxObserver,
            quant_min=0,
            quant_max=255,
            scale=0.03,
            zero_point=101.4,
            dtype=torch.quint8,
        ),
        weight=_LearnableFakeQuantize.with_args(
            observer=quantization.MovingAverageMinMaxObserver,
            quant_min=-8,
            quant_max=7,
            scale=0.05,
            dtype=torch.qint8,
            qscheme=torch.per_tensor_symmetric,
        ),
    )


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_learned_scales_and_four_bits(capture: str) -> None:
    torch.manual_seed(0)
    example = torch.randn(2, 5, 16)
    model = Block().train()
    model.qconfig = learnable()
    model = quantization.prepare_qat(model)
    model.apply(lambda module: module.enable_param_learning() if isinstance(module, _LearnableFakeQuantize) else None)
    model(example)
    model.eval()
    program = onnxexp.export(model, (example,), capture=capture, dynamic_shapes=({0: "batch"},))
    assert integers_only(program)
    codes = [onnx.numpy_helper.to_array(each) for each in program.model_proto.graph.initializer if len(each.dims) == 2]
    assert all(each.min() >= -8 and each.max() <= 7 for each in codes)
    agree(program, model, torch.randn(3, 5, 16), quantum=0.03)


@pytest.mark.parametrize("capture", ["auto", "export", "trace"])
@pytest.mark.parametrize("version", [0, 1])
def test_a_model_that_still_observes_is_refused(capture: str, version: int) -> None:
    example = torch.randn(2, 3, 8, 8)
    model = trained(Convolutions(), example, quantization.get_default_qat_qconfig("fbgemm", version), observing=True)
    with pytest.raises(
        onnxexp.CaptureError, match=r"still observe: .*disable_observer\) \(quant.activation_post_process, .* more\)"
    ):
        onnxexp.export(model, (example,), capture=capture)


def unobserved(version: int) -> torch.nn.Module:
    """Build a model whose observers are off and never saw data."""
    model = Block().train()
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm", version)
    return quantization.prepare_qat(model).apply(quantization.disable_observer).eval()


def test_an_observer_without_data_is_refused_where_eager_fails() -> None:
    prepared, x = unobserved(0), torch.randn(2, 5, 16)
    with pytest.raises(RuntimeError, match="dimensions of scale and zero-point"):
        prepared(x)
    with pytest.raises(onnxexp.CaptureError, match="have never seen data"):
        onnxexp.export(prepared, (x,))


def test_an_observer_without_data_is_a_warning_where_eager_has_a_scale() -> None:
    torch.manual_seed(0)
    prepared, x = unobserved(1), torch.randn(2, 5, 16)
    with pytest.warns(UserWarning, match=r"have never seen data \(.*\): they quantize with the scale that torch starts with"):
        program = onnxexp.export(prepared, (x,))
    difference = (program(x) - prepared(x)).abs()
    assert difference.max() <= 0.101 and (difference > 1e-5).float().mean() < 0.02  # a step, at ties

    fake = quantization.FakeQuantize(quantization.MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
    fake.apply(quantization.disable_observer)
    with pytest.warns(UserWarning, match="have never seen data"):
        program = onnxexp.export(fake, (x,))
    torch.testing.assert_close(program(x), fake(x))


def test_fake_quantization_that_is_switched_off() -> None:
    torch.manual_seed(0)
    example = torch.randn(2, 5, 16)
    model = trained(Block(), example, quantization.get_default_qat_qconfig("fbgemm"))
    model.apply(quantization.disable_fake_quant)
    program = onnxexp.export(model, (example,))
    assert "QuantizeLinear" not in {node.op_type for node in program.model.graph}
    torch.testing.assert_close(program(example), model(example), atol=1e-5, rtol=1e-5)


class Operators(nn.Module):
    """The operators themselves, with their parameters as buffers."""

    def __init__(self, name: str, *args: object) -> None:
        super().__init__()
        self.name, self.rest = name, args
        self.register_buffer("scale", torch.tensor([0.1, 0.25, 0.5]))
        self.register_buffer("zero_point", torch.tensor([0, 3, -2], dtype=torch.int32))
        self.register_buffer("learned", torch.tensor([0.4, 2.5, -2.0]))
        self.register_buffer("lowest", torch.tensor([-1.0, -2.0, -0.5]))
        self.register_buffer("highest", torch.tensor([2.0, 1.0, 1.0]))
        self.register_buffer("off", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("on", torch.ones(1, dtype=torch.int64))

    def forward(self, x: Tensor) -> object:
        given = [getattr(self, arg) if isinstance(arg, str) else arg for arg in self.rest]
        given = [each[:1] if isinstance(each, Tensor) and "per_tensor" in self.name else each for each in given]
        operator = getattr(torch.ops.aten, self.name)
        return operator(x, *given)


FUSED = ("_fused_moving_avg_obs_fq_helper_functional", "off", "on", "lowest", "highest", "scale", "zero_point", 0.01)


@pytest.mark.parametrize(
    "case",
    [
        ("fake_quantize_per_tensor_affine_cachemask", 0.1, 3, 0, 127),
        ("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", "scale", "zero_point", "on", 0, 127),
        ("fake_quantize_per_channel_affine_cachemask", "scale", "zero_point", 1, -128, 127),
        ("_fake_quantize_learnable_per_tensor_affine", "scale", "learned", -8, 7, 1.0),
        ("_fake_quantize_learnable_per_channel_affine", "scale", "learned", 1, -128, 127, 1.0),
        ("fake_quantize_per_channel_affine", "scale", "zero_point", 1, -32768, 32767),
        (*FUSED, 0, 127, 1, True, False),
        (*FUSED, -128, 127, 1, True, True),
    ],
    ids=lambda case: str(case[0]),
)
@pytest.mark.parametrize("opset", [10, 13, 21])
def test_operators(case: tuple[object, ...], opset: int) -> None:
    torch.manual_seed(0)
    model, x = Operators(*case).eval(), torch.randn(4, 3, 5) * 8
    program = onnxexp.export(model, (x,), capture="trace", opset_version=opset, dynamic_shapes=({0: "batch"},))
    onnx.checker.check_model(program.model_proto, full_check=True)
    x = torch.randn(7, 3, 5) * 8
    results, expected = program(x), model(x)
    pairs = [(results, expected)] if isinstance(expected, Tensor) else list(zip(results, expected, strict=True))
    for result, wanted in pairs:
        torch.testing.assert_close(result, wanted, atol=1e-5, rtol=1e-6)
