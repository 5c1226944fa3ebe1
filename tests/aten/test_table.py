"""The plugin's table: every entry agrees with torch's schemas, is reachable, and a case calls it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import transformers.integrations.moe  # noqa: F401  the table has an operator that this registers

from onnxexp.testing import cases_of, check_table
from onnxexp_aten import aten


def because(reason: str, *names: str) -> dict[str, str]:
    return {name if "::" in name else f"aten::{name}": reason for name in names}


WITHOUT_CASE = {
    **because(
        "only TorchScript's graphs hold it",
        *("Bool", "Bool.Tensor", "Float.Tensor", "FloatImplicit", "Int.Tensor", "IntImplicit", "ScalarImplicit", "__xor__"),
        *("_unsafe_index.Tensor_hacked_twin", "_unsafe_index_put.hacked_twin", "index.Tensor_hacked_twin"),
        *("index_put.hacked_twin", "cpu", "ceil.Scalar", "ceil.int", "floor.Scalar", "floor.int", "neg.Scalar", "round.Scalar"),
        *("round.int", "sqrt.Scalar", "sqrt.float", "sqrt.int", "sum.bool", "sum.float", "numel", "size", "size.int", "sym_size"),
        *("split", "to.prim_Device", "to.prim_dtype", "to.prim_other"),
    ),
    **because("torch computes it on accelerators only", "mm.dtype", "bmm.dtype", "addmm.dtype", "baddbmm.dtype"),
    **because("it writes into its arguments, which capture replaces", "_native_batch_norm_legit", "rrelu_with_noise"),
    **because(
        "torch.export cannot trace it",
        *("lift_fresh", "allclose", "equal", "_grid_sampler_2d_cpu_fallback", "randint_like.Tensor_generator"),
        "_batch_norm_with_update_functional",
    ),
}


def test_entries_agree_with_torch() -> None:
    check_table(aten)


@pytest.mark.full
def test_every_operator_has_a_case() -> None:
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names if name != "test_table"]
    check_table(aten, cases_of(*modules), without_case=WITHOUT_CASE)
