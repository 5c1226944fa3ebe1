"""Small scripted programs: decoding, suppression, attention, resizing, powers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import onnxexp

from .running import SEQUENCES, Program, exported, programs

X, MORE = torch.arange(18.0).reshape(3, 6) / 5 - 2, torch.arange(45.0).reshape(5, 9) / 9 - 2
IMAGE = torch.arange(120.0).reshape(2, 3, 4, 5) / 60
BOTH = [{0, 1}]


class Decoder(nn.Module):
    """Greedy decoding: stops early where every sequence has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.cell, self.head = nn.Embedding(10, 8), nn.LSTMCell(8, 8), nn.Linear(8, 10)

    def forward(self, h: Tensor, c: Tensor, steps: int) -> Tensor:
        token = torch.zeros(h.size(0), dtype=torch.long)
        found = [token]
        for _ in range(steps):
            h, c = self.cell(self.embedding(token), (h, c))
            token = self.head(h).argmax(1)
            found.append(token)
            if bool((token == 3).all()):
                break
        return torch.stack(found, 1)


class Repeated(nn.Module):
    """A cell that runs once for each column."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 8)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        for _ in range(x.size(1)):
            h = self.cell(x[:, 0], h)
        return h


def suppressed(x: Tensor) -> Tensor:
    """Keep the best row, drop the rows near it, and go on with the rest."""
    kept: list[Tensor] = []
    order = x[:, 0].argsort(descending=True)
    while order.numel() > 0:
        best = order[0]
        kept.append(best)
        rest = order[1:]
        distance = (x[rest] - x[best]).abs().sum(1)
        order = rest[distance > 8.0]
    return torch.stack(kept)


def attention(x: Tensor) -> Tensor:
    b, t, c = x.size()
    q = x.view(b, t, 2, c // 2).transpose(1, 2)
    scores = (q @ q.transpose(-2, -1)) / float(c) ** 0.5
    mask = torch.tril(torch.ones(t, t)).view(1, 1, t, t)
    weights = scores.masked_fill(mask == 0, float("-inf")).softmax(-1)
    return (weights @ q).transpose(1, 2).contiguous().view(b, t, c)


def doubled(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


def resized(x: Tensor) -> Tensor:
    return functional.interpolate(x, size=[x.size(2) * 2, x.size(3) + 1], mode="bilinear", align_corners=False)


def padded_to_four(x: Tensor) -> Tensor:
    return functional.pad(x, [0, 4 - x.size(1) % 4])


def best_three(x: Tensor) -> Tensor:
    return x.topk(min(3, x.size(0)), 0)[0]


def magnitude(x: Tensor) -> Tensor:
    return abs(x - 1) + abs(-2)


def grid(x: Tensor) -> Tensor:
    rows, columns = torch.meshgrid(torch.arange(x.size(0)), torch.arange(x.size(1)), indexing="ij")
    return x + rows * 10 + columns


def within(x: Tensor, lengths: Tensor) -> Tensor:
    return x * (torch.arange(x.size(1))[None, :] < lengths[:, None])


def running_best(x: Tensor) -> Tensor:
    best = x.new_full((x.size(0),), -1e9)
    for t in range(x.size(1)):
        best = torch.maximum(best, x[:, t])
    return best


def power(x: Tensor, n: int) -> Tensor:
    result = torch.eye(x.size(0))
    while n > 0:
        if n % 2 == 1:
            result = result @ x
        x = x @ x
        n = n // 2
    return result


def integers(x: Tensor) -> Tensor:
    y = x.to(torch.int32)
    return (y // 2 + y % 3).float() / (x.size(0) + 1) + int(x.size(1) / 2)


def without_gradients(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y + 1


def waited_for(x: Tensor) -> Tensor:
    later = torch.jit.fork(torch.relu, x)
    return x + torch.jit.wait(later)


def waited_for_later(x: Tensor) -> Tensor:
    waiting = [torch.jit.fork(torch.relu, x[0])]
    for i in range(x.size(0)):
        waiting.append(torch.jit.fork(torch.neg, x[i]))
    total = torch.zeros_like(x[0])
    for future in waiting:
        total = total * 0.5 + torch.jit.wait(future)
    return total


def by_device(x: Tensor) -> Tensor:
    with torch.autograd.profiler.record_function("part"):
        y = x + 1
    if x.device.type == "cuda":
        return y.cuda()
    return y


def zeros_of_either_rank(x: Tensor) -> Tensor:
    y = x.sum(0) if x.sum() > 0 else x
    return y.new_zeros(y.size(0)) + y.numel() + y.float().abs().max()


def states(batch: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 8, generator=generator), torch.randn(batch, 8, generator=generator)


@programs(
    *(
        Program(fn, X, at=[(MORE,)], dynamic=BOTH)
        for fn in [padded_to_four, best_three, magnitude, grid, running_best, integers, without_gradients, waited_for, by_device]
    ),
    Program(waited_for_later, X, at=[(MORE,)], dynamic=BOTH),
    Program(zeros_of_either_rank, X, at=[(-X,), (MORE,)], dynamic=BOTH),
    Program(Decoder(), *states(3, 0), 6, at=[(*states(2, 1), 4), (*states(1, 2), 0)], dynamic=[{0}, {0}, "n"], opsets=SEQUENCES),
    Program(
        Repeated(), torch.rand(3, 6, 4), torch.rand(3, 8), at=[(torch.rand(2, 5, 4), torch.rand(2, 8))],
        dynamic=[{0, 1}, {0}], opsets=(11, 20),
    ),
    Program(suppressed, X, at=[(MORE.reshape(15, 3),)], dynamic=[{0, 1}], opsets=SEQUENCES),
    Program(attention, X.reshape(3, 3, 2), at=[(MORE.reshape(9, 5, 1).expand(9, 5, 2),)], dynamic=[{0, 1}], opsets=(17, 20, 23)),
    *(Program(fn, IMAGE, at=[(IMAGE[:1, :, :3],)], dynamic=[{0, 2, 3}]) for fn in [doubled, resized]),
    Program(within, X, torch.tensor([2, 6, 4]), at=[(MORE, torch.tensor([1, 2, 3, 9, 0]))], dynamic=[{0, 1}, {0}]),
    Program(power, X[:, :3] / 3, 5, at=[(X[:, :3] / 3, 6), (X[:, :3], 0)], dynamic=[None, "n"], holds=["Loop"]),
)  # fmt: skip
def test_programs(run) -> None:
    run()


class Named(nn.Module):
    def forward(module, x: Tensor) -> Tensor:
        return x * 2


@torch.jit.script
def added(self: Tensor, x: Tensor) -> Tensor:
    return self + x


def test_no_name_of_a_parameter_is_special() -> None:
    x = torch.randn(2, 3)
    for model in (torch.jit.script(Named()), Named()):
        torch.testing.assert_close(exported(model, (x,), capture="script")(x), x * 2)
    torch.testing.assert_close(exported(added, (x, x))(x, x), x + x)


def test_what_a_traced_module_keeps_of_its_example_is_told() -> None:
    class Pieces(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return x.split(2)

    traced = torch.jit.trace(Pieces(), torch.ones(5, 3))
    with pytest.warns(UserWarning, match=r"as many pieces as for the example, 3, at .*test_programs\.py"):
        onnxexp.export(traced, (torch.ones(5, 3),), dynamic_axes={"x": [0]})
