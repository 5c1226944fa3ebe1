"""passes/fuse_rotary.py: rotary position embeddings become RotaryEmbedding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import onnxexp

torch.manual_seed(0)
X = torch.randn(2, 4, 3, 8)
ANGLES, BATCHED, TABLE = torch.randn(3, 4), torch.randn(2, 3, 4), torch.randn(16, 4)
PLACES = torch.tensor([[4, 5, 6], [0, 1, 2]])
Fn = Callable[..., torch.Tensor]


def turned(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return x * cos + turned(x) * sin


def doubled(angles: torch.Tensor) -> torch.Tensor:
    return torch.cat((angles, angles), -1)


def of_positions(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    return rotated(x, doubled(angles).cos(), doubled(angles).sin())


def of_each_row(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    cos, sin = doubled(angles).cos() * 1.5, doubled(angles).sin() * 1.5
    return rotated(x, cos.unsqueeze(1), sin.unsqueeze(1))


def split_heads(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    heads = x.transpose(1, 2).flatten(2).unflatten(2, (4, 8)).transpose(1, 2)
    first, second = heads.chunk(2, -1)
    cos, sin = doubled(angles).cos(), doubled(angles).sin()
    return sin * torch.cat((-second, first), -1) + heads * cos


class Tables(torch.nn.Module):
    def __init__(self, equal: bool = True) -> None:
        super().__init__()
        other = TABLE if equal else TABLE + 1
        self.register_buffer("cos", torch.cat((TABLE, other), -1).cos())
        self.register_buffer("sin", torch.cat((TABLE, other), -1).sin())

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return rotated(x, self.cos[places].unsqueeze(1), self.sin[places].unsqueeze(1))  # type: ignore[index]


SEQUENCE = {0: "batch", 2: "sequence"}
FITTING = {
    "positions": (of_positions, X, ANGLES, SEQUENCE, {0: "sequence"}),
    "rows": (of_each_row, X, BATCHED, SEQUENCE, {0: "batch", 1: "sequence"}),
    "split": (split_heads, X, ANGLES, SEQUENCE, {0: "sequence"}),
    "tables": (Tables(), X, PLACES, SEQUENCE, {0: "batch", 1: "sequence"}),
    "halves": (of_positions, X.half(), ANGLES.half(), SEQUENCE, {0: "sequence"}),
    "static": (of_positions, X, ANGLES, None, None),
}
OTHERS = {
    "doubles": (of_positions, X.double(), ANGLES.double()),
    "unequal halves": (Tables(equal=False), X, PLACES),
    "given tables": (lambda x, angles: rotated(x, doubled(angles), angles.repeat(1, 2)), X, ANGLES),
    "other half": (lambda x, a: x * doubled(a).cos() - turned(x) * doubled(a).sin(), X, ANGLES),
    "of another": (lambda x, a: x * doubled(a).cos() + turned(x + 1) * doubled(a).sin(), X, ANGLES),
    "three axes": (of_positions, X[0], ANGLES),
    "by head": (lambda x, a: rotated(x, doubled(a).cos(), doubled(a).sin()), X, torch.randn(4, 3, 4)),
    "one for all": (lambda x, a: rotated(x, doubled(a).cos(), doubled(a).sin()), X, torch.randn(1, 4)),
}


class Layers(torch.nn.Module):
    """Two layers that share tables; one of `different` has a table of another form."""

    def __init__(self, different: bool = False) -> None:
        super().__init__()
        self.first, self.second = Tables(), Tables()
        self.second.cos, self.second.sin = self.first.cos, self.first.sin
        if different:
            self.first.sin = self.first.sin + torch.arange(8)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x, places) + 1, places)


def operators(program: onnxexp.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("name", FITTING)
def test_it_is_one_node_at_every_size(name: str) -> None:
    fn, x, angles, *axes = FITTING[name]
    dynamic = tuple(axes) if axes[0] else None
    program = onnxexp.export(fn, (x, angles), opset_version=23, dynamic_shapes=dynamic, debug=True)
    assert operators(program).count("RotaryEmbedding") == 1
    assert program.verify().ok
    for batch, length in ((1, 1), (5, 7)) if dynamic else ():
        more = torch.randn(batch, 4, length, 8, dtype=x.dtype)
        shape = [batch, length] if angles.dim() > 2 or angles is PLACES else [length]
        given = torch.randint(16, shape) if angles is PLACES else torch.randn(*shape, 4, dtype=angles.dtype)
        tolerance = 1e-2 if x.dtype == torch.float16 else 1e-5
        torch.testing.assert_close(program(more, given), fn(more, given), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OTHERS)
def test_what_may_differ_stays_composed(name: str) -> None:
    fn, x, angles = OTHERS[name]
    program = onnxexp.export(fn, (x, angles), opset_version=23, debug=True)
    assert "RotaryEmbedding" not in operators(program)
    assert program.verify().ok


@pytest.mark.parametrize(("different", "nodes", "tables"), [(False, 2, 2), (True, 1, 4)])
def test_layers_share_the_halves_of_constant_tables(different: bool, nodes: int, tables: int) -> None:
    program = onnxexp.export(Layers(different), (X, PLACES), opset_version=23, debug=True)
    assert operators(program).count("RotaryEmbedding") == nodes
    stored = [value for value in program.model.graph.initializers.values() if value.dtype.is_floating_point()]
    assert len([value for value in stored if len(value.shape) == 2]) == tables
    assert all(value.uses() for value in stored)
    assert program.verify().ok


def test_earlier_opsets_have_the_composition() -> None:
    assert "RotaryEmbedding" not in operators(onnxexp.export(of_positions, (X, ANGLES), opset_version=22))
