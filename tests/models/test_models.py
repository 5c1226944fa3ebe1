"""Every model exports with dynamic axes, is valid, and agrees with eager."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pytest
import torch

from tests.torch_versions import needs_torch

from . import classic_vision, huggingface, sequence
from .case import ModelCase
from .harness import check_case

CASES: dict[str, ModelCase] = classic_vision.CASES | sequence.CASES | huggingface.CASES


SIBLINGS = {
    "vgg11": "vgg11-bn",
    "resnet50": "resnet18",
    "word-rnn-relu": "word-rnn-tanh",
    "word-transformer": "word-transformer-mask",
    "roberta": "bert",
    "distilbert": "bert",
    "gpt2": "gpt2-past",
    "llama-ids": "llama",
    "mixtral-batched": "mixtral",
}
"""Models with the same layers as another. The quick tier traces both, and runs torch.export on the other only. It traces no other
model that torch can script."""

SLOW = {
    "regnet-small-image",
    "densenet121",
    "detr",
    "t5",
    "whisper",
    "wav2vec2",
    "segformer",
    "clip",
    "inception-v3",
    "llama-past",
}
"""Models that torch.export takes seconds to capture. The quick tier traces them only."""


EXPORT_ONLY = {"mamba-scan"}
"""Its scan is there only while torch.export runs. Else it is `mamba`, which walks over the sequence in Python: a trace of that
keeps the example's length, and is tested with that length fixed."""
SCAN = needs_torch((2, 13), "scan has another size than its sequence")


def runs(quick: Collection[str] = CASES) -> Iterator[Any]:
    """Yield each case at each opset; the `quick` cases have one in the quick tier."""
    for case in CASES.values():
        for opset in case.opsets:
            marks = [] if opset == case.quick_opset and case.name in quick else [pytest.mark.full]
            marks += [SCAN] * (case.name in EXPORT_ONLY)
            yield pytest.param(case, opset, id=f"{case.name}-{opset}", marks=marks)


@pytest.mark.filterwarnings("error:the exported model is right only where")
@pytest.mark.parametrize(("case", "opset"), list(runs(CASES.keys() - SIBLINGS - SLOW)))
def test_agrees_with_eager(case: ModelCase, opset: int) -> None:
    check_case(case, opset)


SCRIPTABLE = (
    "alexnet", "vgg11", "vgg11-bn", "resnet18", "resnet50", "densenet121", "squeezenet", "dcgan-generator", "dcgan-discriminator",
    "bilstm-4",
)  # fmt: skip


def runs_of(names: Iterable[str], quick: Collection[str] = CASES) -> list[Any]:
    """List the runs of some of the models."""
    return [run for run in runs(quick) if run.values[0].name in names]


@pytest.mark.filterwarnings("ignore:Tracing fixes")
@pytest.mark.parametrize(("case", "opset"), runs_of(CASES.keys() - EXPORT_ONLY, (CASES.keys() - SCRIPTABLE) | SIBLINGS.keys()))
def test_traced_agrees_with_eager(case: ModelCase, opset: int) -> None:
    check_case(case, opset, "trace")


@pytest.mark.parametrize(("case", "opset"), runs_of(SCRIPTABLE))
def test_scripted_agrees_with_eager(case: ModelCase, opset: int) -> None:
    check_case(case, opset, "script")


@pytest.mark.parametrize("name", sorted(CASES.keys() - set(SCRIPTABLE)))
def test_torch_scripts_no_other(name: str) -> None:
    """`SCRIPTABLE` is complete.

    torch's compiler raises OSError for every model of `transformers`: their configurations have no source.
    """
    with pytest.raises((RuntimeError, ValueError, OSError, AssertionError)):
        torch.jit.script(CASES[name].build())


def test_quick_tier_has_every_model() -> None:
    assert [case.name for case in CASES.values() if case.quick_opset not in case.opsets] == []
    assert CASES.keys() - SIBLINGS >= {*SIBLINGS.values()}
    assert not SIBLINGS.keys() & EXPORT_ONLY
