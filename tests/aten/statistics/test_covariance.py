"""statistics/covariance.py: covariances that torch's fake tensors cannot compute."""

from __future__ import annotations

from collections.abc import Callable

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

X = torch.randn(3, 6)
COUNTS = torch.tensor([1, 2, 0, 1, 3, 1])
SHARES = torch.rand(6)


def of_several(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Restrict a function to several variables; eager's result for one has no axes."""

    def checked(x: torch.Tensor) -> torch.Tensor:
        assert x.shape[0] > 1
        return function(x)

    return checked


@cases(
    Case(torch.cov, X, dynamic={0: [1]}),
    Case(of_several(torch.cov), X, dynamic={0: [0, 1]}, opsets=(9, 20), name="method"),
    Case(lambda x: torch.cov(x, correction=0), X, opsets=(9, 20), name="correction"),
    Case(lambda x: torch.cov(x, correction=7), X, opsets=(9, 20), name="too_few_observations"),
    Case(lambda x, f: torch.cov(x, fweights=f), X, COUNTS, opsets=(9, 20), name="counts"),
    Case(lambda x, a: torch.cov(x, aweights=a), X, SHARES, opsets=(9, 20), name="shares"),
    Case(lambda x, a: torch.cov(x, aweights=a), X, SHARES.double(), opsets=(20,), name="shares_of_another_dtype"),
    Case(lambda x, f, a: torch.cov(x, correction=2, fweights=f, aweights=a), X, COUNTS, SHARES, opsets=(9, 20), name="both"),
    Case(lambda x, a: torch.cov(x, aweights=a), X[0], SHARES, opsets=(9, 20), name="shares_of_a_vector"),
    Case(torch.cov, X[0], emits={"ReduceMean", "Sub", "ReduceSumSquare", "Div"}, opsets=(20,), name="variance"),
    *(Case(torch.cov, x, opsets=(9, 20), name=name) for name, x in (("vector", X[0]), ("one_row", X[:1]), ("scalar", X[0, 0]))),
    Case(torch.cov, torch.tensor([[1, 2, 4], [3, 1, -2]]), opsets=(9, 20), name="ints"),
    Case(of_several(torch.corrcoef), X, dynamic={0: [0, 1]}, name="corrcoef"),
    Case(torch.corrcoef, X[0], opsets=(9, 20), name="corrcoef_of_a_vector"),
    Case(torch.corrcoef, torch.cat([X, torch.ones(1, 6)]), opsets=(9, 20), name="corrcoef_of_a_constant_row"),
)
def test_covariance(check):
    check()
