"""Small networks to export: BERT, Llama, ResNet, U-Net, and control flow."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F


def bert() -> tuple[torch.nn.Module, dict[str, Any]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=100, hidden_act="gelu"
    )
    return shaken(BertModel(config)), {"input_ids": torch.randint(0, 100, (2, 7)), "attention_mask": torch.ones(2, 7).long()}


def llama() -> tuple[torch.nn.Module, dict[str, Any]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, vocab_size=100
    )
    return shaken(LlamaForCausalLM(config)), {"input_ids": torch.randint(0, 100, (2, 7)), "use_cache": False}


def resnet() -> tuple[torch.nn.Module, dict[str, Any]]:
    return shaken(_ResNet()), {"x": torch.randn(2, 3, 32, 32)}


def unet() -> tuple[torch.nn.Module, dict[str, Any]]:
    return shaken(_UNet()), {"x": torch.randn(2, 3, 16, 16)}


def branching() -> tuple[torch.nn.Module, dict[str, Any]]:
    return shaken(_Branching()), {"x": torch.randn(2, 8), "n": torch.tensor(3)}


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Change the initial weights and statistics, which hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
        for name, buffer in model.named_buffers():
            if "running_mean" in name:
                buffer.copy_(torch.randn_like(buffer) * 0.5)
            elif "running_var" in name:
                buffer.copy_(torch.rand_like(buffer) + 0.3)
    return model.eval()


class _Block(torch.nn.Module):
    def __init__(self, inner: int, outer: int, stride: int = 1) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.first_norm = torch.nn.BatchNorm2d(outer)
        self.second = torch.nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.second_norm = torch.nn.BatchNorm2d(outer)
        self.shortcut = torch.nn.Conv2d(inner, outer, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(torch.add(self.second_norm(self.second(y)), self.shortcut(x), alpha=0.5))


class _ResNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 7, 2, 3)
        self.layers = torch.nn.Sequential(_Block(8, 8), _Block(8, 16, 2))
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.max_pool2d(torch.relu(self.stem(x)), 3, 2, 1)
        return self.head(self.layers(x).mean((2, 3))).softmax(-1)


class _UNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = _Block(3, 8, 2), _Block(8, 8)
        self.norm = torch.nn.GroupNorm(2, 8)
        self.up = torch.nn.ConvTranspose2d(8, 8, 2, 2)
        self.out = torch.nn.Conv2d(11, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.silu(self.up(self.norm(self.middle(self.down(x)))))
        h = F.interpolate(h, scale_factor=1.5, mode="bilinear", align_corners=False)
        h = F.interpolate(h, size=x.shape[2:], mode="nearest")
        h = torch.round(h * 8) / 8
        return torch.sigmoid(self.out(torch.cat([h, x], 1))) - F.softplus(x, beta=2)


class _Branching(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.linear(x))
        h = torch.cond(n > 2, lambda h: torch.sin(h) * 2 + 1, lambda h: torch.cos(h) - 1, (h,))
        _, h = while_loop(lambda i, h: i < n, lambda i, h: (i + 1, torch.sigmoid(h) * 1.5 - h), (n - n, h))
        return h.exp()


def quietly_exported(model: torch.nn.Module, example: dict[str, Any], **options: Any) -> Any:
    """Export a model, and ignore the warnings."""
    import onnxexp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnxexp.export(model, (), kwargs=example, **options)
