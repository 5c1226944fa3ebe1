"""capture/data_dependent_ops.py under torch.export's strict mode alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

import onnxexp

CALLS = {
    "roll": lambda x: (torch.roll(x, (1, 2), (0, 1)), x.roll(3)),
    "take": lambda x: (torch.take(x, torch.tensor([0, 3])), x.take(torch.tensor([5]))),
    "take_along_dim": lambda x: x.take_along_dim(x.argsort(1), 1),
    "tensor_split": lambda x: (torch.tensor_split(x, 3), x.tensor_split([1, 3])),
    "hsplit": lambda x: torch.hsplit(x, 2),
    "vsplit": lambda x: torch.vsplit(x, [2]),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "one_hot": lambda x: functional.one_hot(x.argmax(1), 4),
    "cov": lambda x: torch.cov(x),
    "kron": lambda x: torch.kron(x, x),
    "bincount": lambda x: torch.bincount(x.argmax(1)),
    "unique": lambda x: torch.unique(x.round()),
    "gaussian_nll_loss": lambda x: functional.gaussian_nll_loss(x, x + 1, x.abs()),
    "pad_sequence": lambda x: torch.nn.utils.rnn.pad_sequence([x[:2], x]),
}


@pytest.fixture
def strict_only(monkeypatch):
    original = torch.export.export

    def export(*args, strict, **options):
        if not strict:
            raise RuntimeError("the test leaves the strict mode only")
        return original(*args, strict=strict, **options)

    monkeypatch.setattr(torch.export, "export", export)


@pytest.mark.usefixtures("strict_only")
@pytest.mark.parametrize("name", CALLS)
def test_the_strict_capture_alone_is_right(name):
    class Model(torch.nn.Module):
        def forward(self, x):
            return CALLS[name](x)

    program = onnxexp.export(Model(), (torch.randn(6, 4),), dynamic_shapes={"x": {0: "rows"}}, capture="export")
    x = torch.randn(9, 4)
    torch.testing.assert_close(pytree.tree_leaves(program(x)), pytree.tree_leaves(Model()(x)), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("strict_only")
def test_modules_have_their_names():
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 3)), torch.nn.ReLU())
    program = onnxexp.export(model, (torch.randn(6, 4),), capture="export")
    assert [node.name for node in program.model_proto.graph.node] == ["0.0/Gemm", "1/Relu"]
