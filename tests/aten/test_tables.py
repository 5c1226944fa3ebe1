"""tables.py: entries agree with torch's schemas, and cases call them."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  the table has an operator that this registers

import onnxexp
import onnxexp_aten
import tests.aten
from onnxexp.testing import cases_of, check_table
from onnxexp_aten import aten
from onnxexp_aten.tables import complex_aten


def because(reason: str, *names: str) -> dict[str, str]:
    return {name if "::" in name else f"aten::{name}": reason for name in names}


WITHOUT_CASE = {
    **because(
        "only TorchScript's graphs hold it",
        *("Bool", "Bool.Tensor", "Float.Tensor", "FloatImplicit", "Int.Tensor", "IntImplicit", "ScalarImplicit", "__xor__"),
        *("_unsafe_index.Tensor_hacked_twin", "_unsafe_index_put.hacked_twin", "index.Tensor_hacked_twin"),
        *("index_put.hacked_twin", "cpu", "ceil.Scalar", "ceil.int", "floor.Scalar", "floor.int", "neg.Scalar", "round.Scalar"),
        *("round.int", "sqrt.Scalar", "sqrt.float", "sqrt.int", "sum.bool", "sum.float", "numel", "size", "size.int", "sym_size"),
        *("broadcast_tensors", "split", "to.prim_Device", "to.prim_dtype", "to.prim_other", "_reshape_from_tensor"),
        *(f"{name}_window{periodic}" for name in ("bartlett", "blackman", "hamming", "kaiser") for periodic in ("", ".periodic")),
        *("hann_window.periodic", "hamming_window.periodic_alpha", "hamming_window.periodic_alpha_beta", "kaiser_window.beta"),
    ),
    **because("torch computes it on accelerators only", "mm.dtype", "bmm.dtype", "addmm.dtype", "baddbmm.dtype"),
    **because("it writes into its arguments, which capture replaces", "_native_batch_norm_legit", "rrelu_with_noise"),
    **because(
        "torch.export cannot trace it",
        *("lift_fresh", "allclose", "equal", "_grid_sampler_2d_cpu_fallback", "randint_like.Tensor_generator"),
        *("_batch_norm_with_update_functional", "combinations"),
    ),
}

TORCH_VERSIONS = {"aten::_upsample_lanczos2d_aa": ">=2.12", "aten::cholesky": "<2.14", "aten::qr": "<2.14"}
"""Operators that only some versions of torch define: new ones, and those that torch has removed."""


def test_every_module_with_symbolics_is_listed() -> None:
    folder = Path(onnxexp_aten.__file__).parent
    names = [".".join(path.relative_to(folder.parent).with_suffix("").parts) for path in folder.glob("*/[!_]*.py")]
    modules = [importlib.import_module(name) for name in names]
    for attribute, merged in (("table", aten), ("complex_table", complex_aten)):
        tables = [vars(module)[attribute] for module in modules if attribute in vars(module)]
        assert len(tables) > 1 and sum(map(len, tables)) >= len(merged)
        assert {id(entry) for table in tables for entry in table} == {id(entry) for entry in merged}


def test_entries_agree_with_torch() -> None:
    check_table(aten, torch_versions=TORCH_VERSIONS)


@pytest.mark.full
def test_every_operator_has_a_case() -> None:
    names = [info.name for info in pkgutil.walk_packages(tests.aten.__path__, "tests.aten.") if not info.ispkg]
    modules = [importlib.import_module(name) for name in names if ".test_" in name and name != __name__]
    check_table(aten, cases_of(*modules), without_case=WITHOUT_CASE, torch_versions=TORCH_VERSIONS)


# What the whole of it promises

MAX_LINES = 400
MAX_SINCE = 60

WITHOUT_ENTRY = {
    **because("it has complex arguments or results: `complex_aten` has it", "_fft_c2r", "_fft_r2c"),
    **because(
        "torch decomposes it",
        *("embedding_dense_backward", "native_group_norm_backward", "native_layer_norm_backward"),
    ),
    **because(
        "it asks how a tensor lies in memory, which ONNX's do not say",
        "sym_is_contiguous",
        "sym_storage_offset",
        "sym_stride.int",
    ),
    **because("it changes the size of a tensor that others may share, which capture refuses", "resize_"),
}


PLANES = torch.randn(2, 4, 6, 6)
STATS, WEIGHT = torch.rand(2, 2) + 0.5, torch.randn(4)
backward = torch.ops.aten

DECOMPOSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "embedding_dense_backward": (
        lambda grad, index: backward.embedding_dense_backward(grad, index, 7, 2, True),
        (torch.randn(3, 4), torch.tensor([1, 5, 5])),
    ),
    "native_group_norm_backward": (
        lambda grad, x, mean, rstd, weight: backward.native_group_norm_backward(
            grad, x, mean, rstd, weight, 2, 4, 36, 2, [True, True, True]
        ),
        (torch.randn(2, 4, 6, 6), PLANES, STATS, STATS + 1, WEIGHT),
    ),
    "native_layer_norm_backward": (
        lambda grad, x, mean, rstd, weight: backward.native_layer_norm_backward(
            grad, x, [4], mean, rstd, weight, weight, [True, True, True]
        ),
        (torch.randn(2, 4), torch.randn(2, 4), STATS[:, :1], STATS[:, 1:], WEIGHT),
    ),
}
"""A call of each that torch decomposes."""


def core_operators() -> list[str]:
    """List the operators of core ATen, to which torch decomposes all others."""
    names = [
        name.split(".")[0].removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")
    ]
    packets = [getattr(torch.ops.aten, name) for name in sorted(set(names))]
    overloads = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    return [found.name() for found in overloads if torch.Tag.core in found.tags]


@pytest.mark.parametrize("opset", [9, 13, 20, 26])
def test_every_core_operator_is_lowered(opset: int) -> None:
    core = core_operators()
    assert len(core) > 180
    assert {name for name in core if aten.find(name, opset) is None} == set(WITHOUT_ENTRY)


@pytest.mark.parametrize("name", [name for name, reason in WITHOUT_ENTRY.items() if reason == "torch decomposes it"])
def test_the_rest_of_the_core_decomposes(name: str) -> None:
    model, args = DECOMPOSED[name.removeprefix("aten::")]
    onnxexp.export(model, args, capture="export").verify()


def test_sizes_of_the_symbolics() -> None:
    """Modules of symbolics are short, and few operators differ between opsets."""
    modules = {path: path.read_text("utf-8") for path in Path(onnxexp_aten.__file__).parent.rglob("*.py")}
    assert [path.name for path, text in modules.items() if len(text.splitlines()) > MAX_LINES] == []
    calls = [node for text in modules.values() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    since = [keyword for call in calls for keyword in call.keywords if keyword.arg == "since"]
    assert 0 < len(since) < MAX_SINCE


def test_no_operator_is_handled_twice() -> None:
    """The table refuses a second symbolic of an operator."""
    entries = [(entry.op, entry.since) for entry in aten]
    assert len(entries) == len(set(entries))
    taken = next(iter(aten))
    with pytest.raises(ValueError, match=f"{re.escape(taken.op)} has a symbolic for opset"):
        aten(taken.op, since=taken.since)(taken.function)
