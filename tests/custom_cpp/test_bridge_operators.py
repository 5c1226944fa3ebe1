"""Operators that ONNX cannot express, run by the torch bridge beside others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onnxexp


class Lambda(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def spd(n: int) -> Tensor:
    x = torch.randn(n, n, dtype=torch.float64)
    return x @ x.T + n * torch.eye(n, dtype=torch.float64)


def square(n: int) -> Tensor:
    return torch.randn(n, n, dtype=torch.float64)


def vector(n: int) -> Tensor:
    return torch.rand(n, dtype=torch.float64) + 1.5


OPERATORS: dict[str, tuple[Callable[..., Any], Callable[[int], Any]]] = {
    "linalg_eigvals": (lambda x: torch.linalg.eigvals(x).abs().sum(), square),
    "linalg_eig": (lambda x: (torch.linalg.eig(x)[1] * torch.linalg.eig(x)[0]).abs().sum(), square),
    "linalg_eigh": (lambda x: torch.linalg.eigh(x)[0], spd),
    "linalg_eigvalsh": (lambda x: torch.linalg.eigvalsh(x), spd),
    "linalg_svd": (lambda x: torch.linalg.svd(x)[1], square),
    "linalg_svdvals": (lambda x: torch.linalg.svdvals(x), square),
    "linalg_ldl_factor": (lambda x: torch.linalg.ldl_factor(x), spd),
    "linalg_ldl_solve": (lambda x: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(x), x), spd),
    "linalg_lstsq": (lambda x: torch.linalg.lstsq(x, x)[0], spd),
    "linalg_qr": (lambda x: torch.linalg.qr(x)[1].abs(), square),
    "geqrf": (lambda x: torch.geqrf(x), square),
    "ormqr": (lambda x: torch.ormqr(*torch.geqrf(x), x), square),
    "householder_product": (lambda x: torch.linalg.householder_product(*torch.geqrf(x)), square),
    "linalg_matrix_exp": (lambda x: torch.linalg.matrix_exp(x), square),
    "linalg_pinv": (lambda x: torch.linalg.pinv(x), spd),
    "linalg_matrix_rank": (lambda x: torch.linalg.matrix_rank(x), spd),
    "lu_factor": (lambda x: torch.linalg.lu_factor(x), square),
    "hash_tensor": (lambda x: torch.hash_tensor(x).to(torch.float64), vector),
    "special_bessel_j0": (torch.special.bessel_j0, vector),
    "special_bessel_y1": (torch.special.bessel_y1, vector),
    "special_modified_bessel_k0": (torch.special.modified_bessel_k0, vector),
    "special_scaled_modified_bessel_k1": (torch.special.scaled_modified_bessel_k1, vector),
    "special_airy_ai": (torch.special.airy_ai, vector),
    "special_spherical_bessel_j0": (torch.special.spherical_bessel_j0, vector),
    "special_hermite_polynomial_h": (lambda x: torch.special.hermite_polynomial_h(x, 3), vector),
    "special_laguerre_polynomial_l": (lambda x: torch.special.laguerre_polynomial_l(x, 4), vector),
    "special_zeta": (lambda x: torch.special.zeta(x, x), vector),
    "igamma": (lambda x: torch.igamma(x, x + 1), vector),
    "igammac": (lambda x: torch.igammac(x, x + 1), vector),
    "histc": (lambda x: torch.histc(x, 5, 0.0, 3.0), vector),
    "histogram": (lambda x: torch.histogram(x, 4, range=(0.0, 3.0))[0], vector),
    "cdist_forward": (lambda x: torch.ops.aten._cdist_forward(x, x + 1, 3.0, None), square),
    "segment_reduce": (lambda x: torch.segment_reduce(x, "sum", lengths=torch.full((1,), x.shape[0])), vector),
}


BASIC = onnxexp.SymbolicTable("aten")
"""One standard operator. Without the aten plugin, the bridge runs all others."""


@BASIC("mul.Tensor", dtypes=[torch.float32, torch.float64])
def mul(op: onnxexp.Builder, self: onnxexp.Tensor, other: onnxexp.Tensor) -> onnxexp.Tensor:
    """aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"""
    return op.Mul(self, other)


def exported(function: Callable[..., Any], *example: Tensor, **options: Any) -> onnxexp.ONNXProgram:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "nodes that need torch")
        options = {"plugins": [BASIC, "custom-cpp", "torchscript"], "fallback": "torch"} | options
        return onnxexp.export(Lambda(function), example, **options)


def aten_nodes(program: onnxexp.ONNXProgram) -> list[str]:
    return [node.attributes["operator"].as_string() for node in program.model.graph if node.domain == "org.pytorch.aten"]


def test_many_operators_in_one_session_with_standard_nodes() -> None:
    def all_of_them(*args: Tensor) -> list[Any]:
        results = []
        for index, (function, _) in enumerate(OPERATORS.values()):
            result = function(args[index])
            results += [each * each for each in (result if isinstance(result, (tuple, list)) else [result])]
        return results

    def inputs(n: int) -> list[Tensor]:
        torch.manual_seed(n)
        return [make(n) for _, make in OPERATORS.values()]

    program = exported(all_of_them, *inputs(4), capture="trace", check_sizes=False)
    kept = set(aten_nodes(program))
    assert len(kept) >= 25, sorted(kept)
    assert any(node.op_type == "Mul" for node in program.model.graph)
    for actual, wanted in zip(program(*inputs(4)), all_of_them(*inputs(4)), strict=True):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "segment_reduce"])
def test_sizes_that_the_export_did_not_see(name: str) -> None:
    function, make = OPERATORS[name]
    torch.manual_seed(0)
    example = make(4)
    axes = dict.fromkeys(range(example.dim()), "n")
    program = exported(function, example, capture="trace", dynamic_shapes=((axes,),))
    assert aten_nodes(program)
    for n in (2, 3, 7):
        program.verify((make(n),))


@pytest.mark.parametrize("function", [torch.bernoulli, torch.poisson, torch._standard_gamma, lambda x: torch.binomial(x * 10, x)])
def test_random_operators_are_called_anew(function: Callable[..., Any]) -> None:
    program = exported(lambda x: (function(x), function(x)), torch.rand(50))
    x = torch.rand(50)
    torch.manual_seed(0)
    first, second = program(x)
    third, _ = program(x)
    assert not torch.equal(first, second) and not torch.equal(first, third)


def test_a_random_operator_of_constants_is_not_folded() -> None:
    program = exported(lambda x: x + torch.binomial(torch.full((50,), 10.0), torch.full((50,), 0.5)), torch.zeros(50))
    assert not torch.equal(program(torch.zeros(50)), program(torch.zeros(50)))


def test_a_python_operator() -> None:
    @torch.library.custom_op("onnxexp_tests::norm_and_sign", mutates_args=())
    def norm_and_sign(x: Tensor, scale: float, name: str) -> tuple[Tensor, Tensor]:
        assert name == "a name"
        return x.norm(dim=-1) * scale, (x > 0).to(torch.int8)

    @norm_and_sign.register_fake
    def _(x: Tensor, scale: float, name: str) -> tuple[Tensor, Tensor]:
        return x.new_empty(x.shape[:-1]), x.new_empty(x.shape, dtype=torch.int8)

    program = exported(
        lambda x: torch.ops.onnxexp_tests.norm_and_sign(x, 0.5, "a name"), torch.randn(3, 4), dynamic_shapes=(({0: "n"},),)
    )
    for rows in (1, 5):
        program.verify((torch.randn(rows, 4),))


def test_lists_with_holes() -> None:
    program = exported(lambda x, index: x[:, index] * x[:, index], torch.randn(3, 4), torch.tensor([2, 0]))
    assert {"index", "slice"} & set(aten_nodes(program))
    program.verify()


def test_torch_export_takes_such_operators() -> None:
    program = exported(
        lambda x: torch.linalg.eigvals(x).abs(), square(4), capture="export", dynamic_shapes=(({0: "n", 1: "n"},),)
    )
    assert "linalg_eigvals" in aten_nodes(program)
    for n in (1, 3, 7):
        program.verify((spd(n),))


def test_the_export_names_the_nodes_that_need_torch() -> None:
    model, example = Lambda(lambda x: torch.linalg.ldl_factor(x)), (spd(3),)
    with pytest.warns(
        UserWarning, match=r"need torch when the model runs.*aten::linalg_ldl_factor \(File .*test_bridge_operators.py"
    ):
        program = onnxexp.export(model, example, fallback="torch")
    assert program.model.metadata_props["onnxexp.needs_torch"] == "aten::linalg_ldl_factor"
    with pytest.raises(onnxexp.UnsupportedOperators):
        onnxexp.export(model, example)


def test_a_program_runs_from_several_threads() -> None:
    """An operator in Python waits for the interpreter lock that another thread has."""

    @torch.library.custom_op("onnxexp_tests::doubled", mutates_args=())
    def doubled(x: Tensor) -> Tensor:
        return torch.tensor((x * 2).tolist())

    program = exported(lambda x: doubled(torch.linalg.inv(x) * x), spd(3).float(), capture="trace")
    inputs = [spd(3).float() for _ in range(40)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(program, inputs))
    for x, result in zip(inputs, results, strict=True):
        torch.testing.assert_close(result, torch.linalg.inv(x) * x * 2, rtol=1e-4, atol=1e-4)


def test_an_operator_in_a_branch() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.linalg.matrix_exp(x), lambda x: torch.linalg.pinv(x), (x,))

    program = exported(function, spd(3), capture="export", dynamic_shapes=(({0: "n", 1: "n"},),))
    for n in (2, 5):
        for x in (spd(n), -spd(n)):
            program.verify((x,))
