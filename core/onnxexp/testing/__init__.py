"""The test kit for authors of plugins, which checks exports against eager PyTorch.

    from onnxexp.testing import Case, cases, cases_of, check_table

    @cases(Case(torch.abs, torch.randn(3, 4), dynamic={0: [0]}), Case(torch.neg, torch.randn(3), opsets=(13, 20)))
    def test_operators(check):
        check()

    def test_table():
        check_table(my_pack.table, cases_of(test_operators))

`check_case` runs the same check without pytest.
"""

from __future__ import annotations

from onnxexp.testing._case import Case, cases, cases_of, check_case
from onnxexp.testing._table_check import check_table

__all__ = ["Case", "cases", "cases_of", "check_case", "check_table"]
