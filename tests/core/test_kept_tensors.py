"""Tensors that are kept between calls, or in objects that pytree does not flatten."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Any

import pytest
import torch

from onnxexp import CaptureError, ONNXProgram
from tests.core.tiny import export

X = torch.ones(2, 3)


class Box:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class Running(torch.nn.Module):
    """Adds to a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total = self.total + x
        return torch.relu(self.total)


class History(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = torch.nn.Module()
        self.block.seen = {"all": []}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.block.seen["all"].append(x)
        return torch.relu(x)


class Boxed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.box = Box(torch.zeros(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.box.tensor = self.box.tensor + x
        return torch.relu(self.box.tensor)


class Table(torch.nn.Module):
    """Reads a tensor that is no buffer, and keeps nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.ones(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.table)


def exported(model: Any, *args: Any) -> tuple[ONNXProgram, str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = export(model, args or (X,), capture="export")
    return program, "\n".join(str(each.message) for each in caught)


def test_a_tensor_that_the_forward_keeps_is_a_warning_with_its_line() -> None:
    model = Running()
    before = model.total
    _, told = exported(model)
    assert re.search(r"self\.total \(File .*test_kept_tensors\.py\", line \d+: self\.total = self\.total \+ x\)", told)
    assert model.total is before and torch.equal(before, torch.zeros(2, 3))


class Computed(torch.nn.Module):
    """Writes tensors before it reads them, one in a hook, as `weight_norm` does."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.zeros(2, 3)
        self.register_forward_pre_hook(lambda module, args: setattr(module, "factor", args[0] * 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scores = torch.relu(x)
        return self.scores * self.factor


class Previous(Computed):
    """Returns a kept tensor that it reads first."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.shifted(x)

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        before = getattr(self, "last", x)
        self.last = x
        return before


def test_a_tensor_that_is_written_before_it_is_read_is_not_kept() -> None:
    model = Computed()
    assert exported(model)[1] == "" and type(model) is Computed and not hasattr(model, "scores")
    told = exported(Previous())[1]
    assert "self.last (" in told and "scores" not in told and "factor" not in told


def test_one_in_a_container_of_a_submodule() -> None:
    model = History()
    _, told = exported(model)
    assert "self.block.seen['all'][0]" in told and told.count("the forward keeps tensors") == 1
    assert model.block.seen == {"all": []}


def test_a_class_without_source() -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(inspect.getsource(Running), names)
    _, told = exported(names["Running"]())
    assert "self.total (in forward (Running))" in told


def test_a_tensor_that_is_only_read_is_none() -> None:
    _, told = exported(Table())
    assert told == ""


def test_an_object_of_the_model_stays_as_it_was() -> None:
    model = Boxed()
    before = model.box.tensor
    exported(model)
    assert model.box.tensor is before and type(before) is torch.Tensor


def test_an_argument_that_pytree_does_not_flatten() -> None:
    with pytest.raises(CaptureError, match="the argument box is a Box, whose tensors would become constants; to fix this, "):
        export(lambda box: torch.relu(box.tensor), (Box(X),))


@pytest.mark.parametrize("capture", ["auto", "export"])
def test_an_output_that_pytree_does_not_flatten(capture: str) -> None:
    with pytest.raises(CaptureError, match="Box"):
        export(lambda x: {"y": torch.relu(x), "box": Box(x)}, (X,), capture=capture)
