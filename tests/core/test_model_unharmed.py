"""An export leaves the model as it was, for its other users too."""

from __future__ import annotations

import contextlib
import copy
import functools
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onnxexp
from onnxexp._capture.private_model import private_model, private_tensors


def trained() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def export(model: torch.nn.Module, capture: str, training: bool = False) -> None:
    mode = onnxexp.TrainingMode.TRAINING if training else onnxexp.TrainingMode.EVAL
    onnxexp.export(model, (torch.randn(8, 4),), capture=capture, training=mode, plugins=None)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_backward_after_export(capture: str, training: bool) -> None:
    torch.manual_seed(0)
    model, x = trained(), torch.randn(8, 4)
    model.train(training)
    expected = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    loss = model(x).sum()
    before = {name: (buffer.clone(), buffer._version) for name, buffer in model.named_buffers()}
    export(model, capture, training)
    assert all(torch.equal(buffer, before[name][0]) for name, buffer in model.named_buffers())
    assert {name: buffer._version for name, buffer in model.named_buffers()} == {name: each[1] for name, each in before.items()}
    found = torch.autograd.grad(loss, list(model.parameters()))
    torch.testing.assert_close(found, expected)


class Counting(torch.nn.Module):
    """A module with a data-dependent size, which a run of the example checks."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x[x > 0].squeeze() >= self.count.sum()


def test_a_checked_program_leaves_the_buffers() -> None:
    model = Counting()
    onnxexp.export(model, (torch.tensor([1.0, -1.0, 2.0, 3.0]),), capture="export")
    assert torch.equal(model.count, torch.zeros(3))


READ_ONLY = """
import sys, tempfile, numpy as np, torch, onnxexp

class Model(torch.nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table

with tempfile.TemporaryDirectory() as folder:
    np.arange(4, dtype=np.float32).tofile(folder + "/table")
    table = torch.from_numpy(np.memmap(folder + "/table", np.float32, "r"))
    program = onnxexp.export(Model(table), (torch.ones(4),), capture=sys.argv[1])
    assert program(torch.ones(4)).tolist() == [1, 2, 3, 4]
"""


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_buffer_in_read_only_memory(capture: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", READ_ONLY, capture], check=True, timeout=300)


def test_training_thread_keeps_its_steps() -> None:
    torch.manual_seed(0)
    norm, stop, steps = torch.nn.BatchNorm1d(4), threading.Event(), 0
    user = torch.nn.BatchNorm1d(4)
    user.running_mean, user.running_var, user.num_batches_tracked = norm.running_mean, norm.running_var, norm.num_batches_tracked

    def train() -> None:
        nonlocal steps
        x = torch.randn(8, 4)
        while not stop.is_set():
            user(x)
            steps += 1

    thread = threading.Thread(target=train)
    thread.start()
    try:
        for _ in range(3):
            export(torch.nn.Sequential(torch.nn.Linear(4, 4), norm).eval(), "export")
    finally:
        stop.set()
        thread.join()
    assert steps > 10
    assert int(norm.num_batches_tracked) >= 0.99 * steps


BESIDE: list[Callable[[], None]] = []
"""What another thread runs in the forward of a `Beside`; the modules of a test do not refer to each other through it."""


class Beside(torch.nn.Module):
    """A model that another thread uses while it is captured."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.last = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 2))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = self.norm(x)
        while BESIDE:
            thread = threading.Thread(target=BESIDE.pop())
            thread.start()
            thread.join()
        return self.last(x)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_another_thread_uses_the_model(capture: str, train: bool) -> None:
    torch.manual_seed(0)
    model, x = Beside().train(train), torch.randn(8, 4)
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (model, twin)]
    seen: list[Any] = []

    def step() -> None:
        for each, optimizer in zip((model, twin), optimizers, strict=True):
            flags = torch.onnx.is_in_onnx_export(), torch.backends.mha.get_fastpath_enabled()
            seen.append((each(x).detach(), [module.training for module in each.modules()], flags))
            each(x).sum().backward()
            optimizer.step()

    BESIDE.append(step)
    with pytest.warns(UserWarning, match="the forward writes into calls"):
        onnxexp.export(model, (x,), capture=capture, check_sizes=False)
    (found, *states), (expected, *as_before) = seen
    assert states == as_before
    assert states[1] == (False, True)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(dict(model.state_dict()), dict(twin.state_dict()))


class Writes(torch.nn.Module):
    """Writes into a parameter and buffers, and replaces another buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("written", torch.ones(4))
        self.register_buffer("replaced", torch.ones(4))
        self.register_buffer("expanded", torch.ones(1).expand(4))
        self.register_buffer("shared", torch.ones(4).share_memory_())
        self.tied = torch.nn.Module()
        self.tied.register_buffer("same", self.written)
        self.register_forward_hook(lambda module, inputs, output: output + 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.mul_(2)
        self.written.add_(1)
        self.shared.add_(1)
        self.replaced = self.replaced + 1
        return x * self.weight + self.tied.same + self.replaced + self.expanded + self.shared


def state_of(model: torch.nn.Module) -> list[Any]:
    tensors = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    facts = [
        (name, id(each), each.tolist(), each._version, each.requires_grad, each.is_shared()) for name, each in tensors.items()
    ]
    hooks = [list(module._forward_hooks.items()) for module in model.modules()]
    shared = [name for name, each in tensors.items() if each.is_shared()]
    return [facts, shared, hooks, [module.training for module in model.modules()], model.weight.grad]  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:the forward")
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_written_state_is_left_as_it_was(capture: str) -> None:
    model, x = Writes().train(), torch.arange(4.0)
    loss = model(x).sum()  # needs the weight that the capture writes into
    before = state_of(model)
    program = onnxexp.export(model, (x,), capture=capture)
    assert state_of(model) == before
    loss.backward()
    expected = copy.deepcopy(model)(x)
    torch.testing.assert_close(torch.as_tensor(program(x)), expected)
    program.verify()
    assert state_of(model)[:4] == before[:4]


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_step_of_training_around_an_export(capture: str) -> None:
    torch.manual_seed(0)
    model, x = trained().train(), torch.randn(8, 4)
    twin = copy.deepcopy(model)
    for each in (model, twin):
        optimizer = torch.optim.Adam(each.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss = each(x).square().sum()
            if each is model:
                export(model, capture)
            loss.backward()
            optimizer.step()
    torch.testing.assert_close(dict(model.state_dict()), dict(twin.state_dict()))


class Helper:
    """An object with a module."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)


class Slots(torch.nn.Module):
    """A module with an attribute outside of its `__dict__`."""

    __slots__ = ("inner",)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


GLOBAL = torch.nn.Dropout(0.5)


def through_global(x: torch.Tensor) -> torch.Tensor:
    return GLOBAL(x)


class Uses(torch.nn.Module):
    """A model that calls its dropout through an attribute."""

    def __init__(self, attribute: Callable[[torch.nn.Module, torch.nn.Module], Any]) -> None:
        super().__init__()
        self.dropout = GLOBAL
        self.weight = torch.nn.Parameter(torch.ones(()))
        vars(self)["attribute"] = attribute(self, self.dropout)

    def drop(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(x) * self.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attribute = self.attribute
        while not callable(attribute):
            attribute = attribute["key"] if isinstance(attribute, dict) else attribute[0]
        found = attribute() if isinstance(attribute, weakref.ref) else attribute
        return found(x)


class UsesGlobal(Uses):
    """A model whose forward calls its dropout as a global variable."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return GLOBAL(x)


def slots(dropout: torch.nn.Module) -> torch.nn.Module:
    module = Slots()
    object.__setattr__(module, "inner", dropout)
    return module


COPIED: dict[str, Callable[[], torch.nn.Module]] = {
    "module": lambda: Uses(lambda model, dropout: dropout),
    "method": lambda: Uses(lambda model, dropout: model.drop),  # type: ignore[attr-defined]
    "containers": lambda: Uses(lambda model, dropout: [{"key": (dropout,)}]),
    "partial": lambda: Uses(lambda model, dropout: functools.partial(type(dropout).forward, dropout)),
    "weak": lambda: Uses(lambda model, dropout: weakref.ref(dropout)),
    "function": lambda: Uses(lambda model, dropout: torch.nn.functional.relu),
}
REFUSED: dict[str, Callable[[], torch.nn.Module]] = {
    "closure": lambda: Uses(lambda model, dropout: lambda x: dropout(x)),
    "object": lambda: Uses(lambda model, dropout: Helper(dropout)),
    "object in a list": lambda: Uses(lambda model, dropout: [Helper(dropout)]),
    "function": lambda: Uses(lambda model, dropout: through_global),
    "global": lambda: UsesGlobal(lambda model, dropout: None),
    "slots": lambda: torch.nn.Sequential(GLOBAL, slots(GLOBAL)),
}


@pytest.mark.parametrize("tensors", [False, True], ids=["shared", "tensors"])
@pytest.mark.parametrize("make", COPIED.values(), ids=COPIED)
def test_copied_models(make: Callable[[], torch.nn.Module], tensors: bool) -> None:
    model = make().train()
    with private_tensors(model) if tensors else contextlib.nullcontext(private_model(model)) as private:
        assert private is not model and not {*map(id, private.modules())} & {*map(id, model.modules())}
        private.eval()
        assert private(torch.ones(99)).tolist() == [1] * 99
        assert model.training and model.dropout.training  # type: ignore[union-attr]
        assert (private.weight is model.weight) is not tensors
    assert model.weight.numel() == 1  # type: ignore[operator, union-attr]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_models_that_cannot_be_copied(make: Callable[[], torch.nn.Module], capture: str) -> None:
    model = make().train()
    assert private_model(model) is model
    program = onnxexp.export(model, (torch.ones(99),), capture=capture)
    assert program(torch.ones(99)).tolist() == [1] * 99  # without dropout
    assert all(module.training for module in model.modules())


def test_tensors_in_an_object() -> None:
    """A copy of the buffer would differ from the object's."""
    model = Uses(lambda model, dropout: Helper(model.weight))  # type: ignore[arg-type]
    assert private_model(model) is not model
    with private_tensors(model) as private:
        assert private is model


def test_views_share_their_memory() -> None:
    model = torch.nn.Module()
    model.register_buffer("whole", torch.zeros(4))
    model.register_buffer("part", model.whole[:2])  # type: ignore[index]
    with private_tensors(model) as private:
        assert private is model
