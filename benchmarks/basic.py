"""Small models: a layer, a perceptron, convolutional and recurrent networks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from tests.models.classic_vision import VGG, DenseNet, ResNet, SqueezeNet, SuperResolution, lively
from tests.models.inception import InceptionV3
from tests.models.sequence import WordModel

from .case import BenchCase, Sizes, floats, tokens

EXAMPLE, OTHER = {"batch": 2}, {"batch": 1}
WORDS, HIDDEN, LAYERS, TIME = 10_000, 650, 2, 35


def flat(name: str, build: Callable[[], nn.Module], shape: tuple[int, ...], quick: bool = False) -> BenchCase:
    """Create a case with one float input, (batch, *shape)."""

    def inputs(sizes: Sizes) -> tuple[torch.Tensor, ...]:
        return (floats(sizes["batch"], *shape),)

    return BenchCase(name, build, inputs, EXAMPLE, OTHER, ({0: "batch"},), quick)


def perceptron() -> nn.Module:
    """Create a perceptron with three layers."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class LanguageModel(nn.Module):
    """The LSTM word model with its state as two plain arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.model = WordModel("LSTM", WORDS, HIDDEN, LAYERS)

    def forward(
        self, ids: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute log probabilities of the next words, and the state."""
        scores, (hidden, cell) = self.model(ids, (hidden, cell))
        return scores, hidden, cell


def words_and_state(sizes: Sizes) -> tuple[torch.Tensor, ...]:
    """Return (time, batch) ids and two (layers, batch, hidden) states.

    The time is fixed, since torch.export unrolls it.
    """
    state = floats(LAYERS, sizes["batch"], HIDDEN)
    return tokens(WORDS, TIME, sizes["batch"]), state, state + 1


CASES = [
    flat("linear", lambda: nn.Linear(64, 64), (64,), quick=True),
    flat("mlp", perceptron, (784,), quick=True),
    flat("super-resolution", lively(lambda: SuperResolution(3)), (1, 64, 64)),
    flat("squeezenet", lively(SqueezeNet), (3, 224, 224), quick=True),
    flat("resnet18", lambda: ResNet((2, 2, 2, 2), False), (3, 224, 224), quick=True),
    flat("resnet50", lambda: ResNet((3, 4, 6, 3), True), (3, 224, 224)),
    flat("densenet121", DenseNet, (3, 224, 224)),
    flat("inception-v3", InceptionV3, (3, 299, 299)),
    flat("vgg11-bn", lively(lambda: VGG(True)), (3, 224, 224)),
    BenchCase("lstm-lm", LanguageModel, words_and_state, EXAMPLE, OTHER, ({1: "batch"},) * 3, quick=True),
]
