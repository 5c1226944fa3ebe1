"""bfloat16 on ONNX Runtime's CPU: a warning, or Casts around missing kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onnxexp
from onnxexp_ort import Bfloat16OnCpu
from tests.models.test_low_precision import Attention, Net

X = torch.randn(2, 4).bfloat16()


def loop(x: torch.Tensor) -> torch.Tensor:
    def body(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return i + 1, x * 1.5 + x.mean()

    return torch.while_loop(lambda i, x: i < 3, body, (torch.tensor(0), x))[1]


def branch(x: torch.Tensor) -> torch.Tensor:
    def overwritten(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0] = 1.0
        return y

    return torch.cond(x.mean() < 0.5, overwritten, lambda x: x + 1, (x,))


MODELS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "attention": (Attention().bfloat16().eval(), (torch.randn(2, 5, 16).bfloat16(),)),
    "convolutions": (Net().bfloat16().eval(), (torch.randn(2, 3, 8, 8).bfloat16(),)),
    "norms": (nn.Sequential(nn.LayerNorm(4), nn.GELU(), nn.RMSNorm(4), nn.Softmax(-1)).bfloat16(), (X,)),
    "recurrent": (nn.GRU(4, 3).bfloat16().eval(), (X,)),
    "a loop": (loop, (X,)),
    "a branch": (branch, (X,)),
    "an equation": (lambda x: (torch.einsum("...ij->...ji", x), torch.einsum("b...->b", x)), (X,)),
    "selection": (lambda x: (x.topk(2).values, x.argmax(-1), torch.where(x > 0, x, x.cumsum(0)), x.sort().values), (X,)),
    "moves": (lambda x: torch.cat([x.t().reshape(-1, 4)[:, 1:], x.flip(0)], 1)[..., None].expand(-1, 7, 3), (X,)),
    "creation": (lambda x: (x.new_full((x.shape[0], 3), 2.5), torch.zeros_like(x) + 1, x.new_ones(x.shape[0]).cumsum(0)), (X,)),
    "masks": (lambda x: (x[x > 0], x.masked_select(x < 1), x[(x > 0)[:, 0]], torch.unique_consecutive(x.round(), dim=1)), (X,)),
    "weights alone": (nn.Embedding(6, 4).bfloat16(), (torch.tensor([[1, 5]]),)),
}


@pytest.mark.parametrize("opset", [17, 23])
@pytest.mark.parametrize("name", MODELS)
def test_casts(name: str, opset: int, recwarn: pytest.WarningsRecorder) -> None:
    """The file runs on a CPU, and rounds each result as torch does."""
    model, inputs = MODELS[name]
    axes = [{0: "batch"} for _ in inputs] if name != "recurrent" else None
    program = onnxexp.export(
        model, inputs, opset_version=opset, dynamic_shapes=axes, plugins=[Bfloat16OnCpu(), ...], capture="export", debug=True
    )
    assert not [warning for warning in recwarn if "bfloat16" in str(warning.message)]
    for given in (inputs, [x.repeat(3, *[1] * (x.dim() - 1)) for x in inputs] if axes else inputs):
        expected, actual = model(*given), program(*given)
        expected, actual = (each if isinstance(each, tuple) else (each,) for each in (expected, actual))
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=3e-2, atol=3e-2)


def test_a_warning_names_the_fixes() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh()).bfloat16()
    with pytest.warns(
        UserWarning, match=r"no kernels \(Gemm, Tanh\): .* to fix this, export model\.float\(\) \(`--dtype float32`\)"
    ):
        program = onnxexp.export(model, (X,))
    with pytest.raises(onnxexp.OnnxExporterError, match="no CPU kernel"):
        program(X)


@pytest.mark.parametrize(("model", "options"), [(MODELS["weights alone"], {}), (MODELS["norms"], {"target": "onnx"})])
def test_no_warning(model: Any, options: dict[str, Any], recwarn: pytest.WarningsRecorder) -> None:
    """Where kernels exist, or another runtime is the target."""
    onnxexp.export(*model, **options)
    assert not [warning for warning in recwarn if "bfloat16" in str(warning.message)]
