"""State that an export leaves as it was, and models that torch has wrapped."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import onnxexp
from onnxexp import CaptureError, OnnxExporterError, OptionError
from tests.core.exporting import Affine, X, names, same, shape, valid
from tests.core.tiny import export

# State


class Forgetful(nn.Module):
    """A module whose forward writes to its attributes, its containers and its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.table = torch.ones(3)
        self.tables = {"zero": torch.zeros(3)}
        self.nested = [(torch.zeros(3),)]
        self.expanded = torch.ones(1).expand(3)
        self.calls = 0
        self.seen: list[int] = []
        self.last: Any = None
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        self.last = x
        self.table.add_(1)
        self.tables["zero"].add_(2)
        self.nested[0][0].add_(3)
        self.tables["new"] = x
        self.count = self.count + 1
        return self.linear(x) + self.table + self.tables["zero"] + self.count + self.calls


class ThroughData(nn.Module):
    """A module that writes through `.data`.

    `len` of a dynamic axis makes torch.export capture it in strict mode.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + len(x)
        y.data.add_(1)
        self.seen.data.add_(1)
        return y + self.seen, self.seen + 0


@pytest.mark.filterwarnings("ignore:the forward writes into")
def test_writes_through_data_in_a_strict_capture() -> None:
    program = export(ThroughData(), (torch.ones(2, 3),), dynamic_shapes=({0: "n"},), capture="export")
    for size in (2, 5):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), ThroughData()(x))


def _state(model: Forgetful) -> tuple[Any, ...]:
    tensors = [model.table, model.tables["zero"], model.count, model.nested[0][0]]
    values = [tensor.clone() for tensor in tensors]
    return (
        [id(tensor) for tensor in tensors],
        values,
        model.calls,
        list(model.seen),
        model.last,
        list(model.tables),
        model.training,
    )


@pytest.mark.filterwarnings("ignore:the forward writes into", "ignore:torch.export failed")
def test_an_export_changes_neither_the_model_nor_its_arguments() -> None:
    model, x = Forgetful(), X.clone()
    before = _state(model)
    program = export(model, (x,), capture="export")
    program.verify()
    assert str(_state(model)) == str(before)
    same(x, X)
    same(valid(program)(X), model(X))


class Written(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.t = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.t.add_(1)
        return self.t + x


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_an_attribute_has_the_value_from_before_the_export(rows: int) -> None:
    model, x = Written(), torch.randn(rows, 3)
    with pytest.warns(UserWarning, match="the forward writes into"):
        program = export(model, (x,))
    same(model.t, torch.ones(3))
    same(valid(program)(x), x + 2)
    same(model.t, torch.ones(3))


def test_the_state_is_put_back_after_a_failure() -> None:
    class Broken(Written):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            super().forward(x)
            self.extra = 1
            raise ValueError("broken")

    model = Broken()
    with pytest.raises(CaptureError, match="broken"):
        export(model, (X,))
    same(model.t, torch.ones(3))
    assert not hasattr(model, "extra")


# Arguments that hold tensors


class Cache:
    def __init__(self, keys: Any) -> None:
        self.keys = keys


@pytest.mark.parametrize("given", [Cache(X), Cache([Cache({"a": X})]), {1: Cache(X)}])
def test_tensors_inside_an_object_become_no_constants(given: Any) -> None:
    with pytest.raises(
        CaptureError, match=r"the argument cache\S* is a Cache, whose tensors would become constants; to fix this, pass"
    ):
        export(lambda x, cache: x + 1, (X, given, {}))


def test_a_lone_dict_as_an_argument() -> None:
    with pytest.raises(OptionError, match=r"no parameter 'city'; it takes \(d\); to pass a dict as an argument, append an empty"):
        export(lambda d: d["city"] + 1, ({"city": X},))
    same(export(lambda d: d["city"] + 1, ({"city": X}, {}))({"city": X}), X + 1)


# Wrappers


def _distributed(model: nn.Module) -> nn.Module:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        return nn.parallel.DistributedDataParallel(model)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "wrap", [torch.compile, nn.DataParallel, _distributed, lambda model: torch.compile(nn.DataParallel(model))]
)
def test_a_wrapped_model_exports_as_the_model_inside(wrap: Any) -> None:
    model = Affine()
    program = valid(export(wrap(model), (X,), dynamic_shapes={"x": {0: "batch"}}))
    assert names(program) == (["x"], ["output"]) and shape(program, "x") == ["batch", 3]
    assert set(program.model.graph.initializers) == {"weight", "shift"}
    for rows in (1, 2, 5):
        same(program(x := torch.randn(rows, 3)), model(x))


def test_a_compiled_function() -> None:
    assert names(export(torch.compile(lambda given: given + 1), (X,)))[0] == ["given"]


# Tensors without values


def test_inside_a_fake_mode() -> None:
    with (
        FakeTensorMode(),
        pytest.raises(CaptureError, match="the export runs inside FakeTensorMode.* to fix this, leave that mode"),
    ):
        export(Affine(), (torch.randn(2, 3),))


def test_a_model_on_the_meta_device() -> None:
    model, x = Affine().to("meta"), X.to("meta")
    with pytest.raises(
        CaptureError, match="without data: weight, shift; to fix this, pass weights=CHECKPOINT, or export_params=False"
    ):
        export(model, (x,))
    program = valid(export(model, (x,), export_params=False))
    with pytest.raises(OnnxExporterError, match="the tensor given for weight has no data"):
        program(X)


# Messages


def test_gradients_in_forward() -> None:
    def energy(x: torch.Tensor) -> torch.Tensor:
        x.requires_grad_()
        return torch.autograd.grad((x * x).sum(), x)[0]

    with pytest.raises(CaptureError, match=r"the model computes gradients, which are off in an export.*torch.enable_grad\(\)"):
        onnxexp.export(energy, (X,))


def test_the_kinds_of_exceptions_that_torch_onnx_raises() -> None:
    assert issubclass(onnxexp.OnnxExporterError, RuntimeError)
    assert issubclass(onnxexp.VerificationError, AssertionError)
