"""capture/data_dependent_ops.py: such operators are captured whole."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional

import onnxexp
from onnxexp.testing import Case, cases
from onnxexp_aten.capture import data_dependent_ops

torch.manual_seed(0)

X = torch.randn(5, 3)
START = torch.tensor(1)
CLASSES = torch.tensor([2, 0, 3])
HELD = functional.one_hot
NLL = (torch.randn(5, 3), torch.randn(5, 3), torch.rand(5, 3))


@cases(
    Case(lambda x: functional.one_hot(x), CLASSES, dynamic={0: [0]}, name="one_hot_by_name"),
    Case(lambda x: HELD(x), CLASSES, opsets=(20,), name="one_hot_held"),
    Case(lambda x, w: functional.one_hot(x, num_classes=-1).float() @ w, CLASSES, torch.randn(4, 2), opsets=(9, 20), name="used"),
    Case(lambda x: functional.one_hot(x, 6), CLASSES, emits={"OneHot"}, opsets=(20,), name="one_hot_of_a_known_number"),
    Case(lambda x, start: torch.narrow(x, 0, start, 2), X, START, dynamic={0: [0]}, opsets=(10, 20), name="narrow"),
    Case(lambda x, start: x.narrow(0, start, 2), X, -START - 1, opsets=(20,), name="narrow_from_the_end"),
    Case(lambda x, start: x.narrow(0, start=start, length=2), X, START, opsets=(20,), name="narrow_by_keyword"),
    Case(lambda x: x.narrow(0, 1, 2), X, emits={"Slice"}, opsets=(20,), name="narrow_at_a_number"),
    Case(functional.gaussian_nll_loss, *NLL, dynamic={0: [0], 1: [0], 2: [0]}, opsets=(9, 20)),
    Case(lambda *args: functional.gaussian_nll_loss(*args, full=True, reduction="sum"), *NLL, opsets=(20,), name="nll_sum"),
    Case(
        lambda x, y, v: functional.gaussian_nll_loss(x, y, v, reduction="none", eps=0.5),
        *NLL[:2],
        NLL[2][:, 0],
        opsets=(20,),
        name="nll_of_one_variance_each",
    ),
    *(
        Case(
            lambda x, w, y, how=how: functional.linear_cross_entropy(
                x, w, y, reduction=how, options=torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
            ),
            X,
            torch.randn(4, 3),
            torch.tensor([3, 0, 1, 1, 2]),
            dynamic={0: [0], 2: [0]},
            opsets=(13, 20),
            name=f"linear_cross_entropy_in_chunks_{how}",
        )
        for how in ("mean", "none")
        if hasattr(functional, "linear_cross_entropy")  # not in torch 2.11
    ),
    Case(lambda x, y: functional.gaussian_nll_loss(x, y, 0.3), *NLL[:2], opsets=(20,), name="nll_of_a_number"),
)
def test_opaque(check):
    check()


def names() -> list[object]:
    return [getattr(owner, name) for owner, name, _ in data_dependent_ops.DATA_DEPENDENT if hasattr(owner, name)]


def test_torch_is_as_it_was_after_a_capture():
    before = copy.copy(names())
    onnxexp.export(lambda x: functional.one_hot(x), (CLASSES,))
    with pytest.raises(onnxexp.OnnxExporterError):
        onnxexp.export(lambda x: functional.one_hot(x, "many"), (CLASSES,))
    assert names() == before
    assert "narrow" not in vars(torch.Tensor)


def pooled(x: torch.Tensor) -> torch.Tensor:
    return torch.max_pool1d(x, [2])


def test_scripts_call_torchs_own_functions():
    """Only captures by torch.export replace functions; scripts could not compile them."""
    onnxexp.export(pooled, (torch.randn(2, 6),), opset_version=20, capture="script", verify=True)
