"""linalg/einsum.py: MatMul, Einsum, or elementary operators before opset 12."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r = torch.randn


def case(equation: str, *tensors: torch.Tensor, **options: object) -> Case:
    return Case(lambda *args: torch.einsum(equation, *args), *tensors, name=equation, rtol=1e-4, atol=1e-5, **options)


@cases(
    case("ij,jk->ik", r(2, 3), r(3, 4), dynamic={0: [0]}, emits={"MatMul"}),
    case("bij,bjk->bik", r(2, 2, 3), r(2, 3, 4), dynamic={0: [0], 1: [0]}, emits={"MatMul"}),
    case("bqhd,bkhd->bhqk", r(2, 3, 2, 4), r(2, 5, 2, 4), dynamic={0: [0, 1], 1: [0, 1]}, emits={"Transpose", "MatMul"}),
    case("bi,bi->b", r(2, 3), r(2, 3), dynamic={0: [0], 1: [0]}),
    case("bi,i->b", r(2, 3), r(3), dynamic={0: [0]}, emits={"Unsqueeze", "MatMul", "Squeeze"}),
    case("ib,i->b", r(3, 7), r(3), dynamic={0: [1]}),
    case("i,i", r(3), r(3), emits={"MatMul"}),
    case("Ab,bC", r(2, 3), r(3, 4), emits={"MatMul"}),
    case("nhwc,nchk->nhwk", r(2, 3, 2, 4), r(2, 4, 3, 2)),
    case("bi,ij->bj", torch.randint(5, (2, 3)), torch.randint(5, (3, 2)), emits={"MatMul"}),
    case("bi,ij->bj", torch.randint(5, (2, 3), dtype=torch.int8), torch.randint(5, (3, 2), dtype=torch.int8)),
)
def test_products(check):
    check()


@cases(
    case("...ij,jk", r(2, 2, 3), r(3, 4), dynamic={0: [0]}, emits={"Einsum"}),
    case("i,j->ij", r(2), r(3), dynamic={0: [0]}, emits={"Unsqueeze", "Mul"}),
    case("...i,...j->...ij", r(3, 2), r(3, 4), dynamic={0: [0], 1: [0]}, emits={"Unsqueeze", "Mul"}),
    case("ii->i", r(3, 3), opsets=(12, 20)),
    case("ij->ji", r(3, 2), dynamic={0: [0]}),
    case("ij->", r(3, 2)),
    case("bijk,bkl,l->bij", r(2, 3, 2, 3), r(2, 3, 4), r(4), dynamic={0: [0], 1: [0]}),
    case("abc,dbc->ad", r(2, 3, 4), r(5, 3, 4), dynamic={0: [0, 1], 1: [1]}),
    case("ij,kj->k", r(2, 3), r(4, 3)),
    case("bhwc,hkc->bhwk", r(2, 3, 4, 5), r(3, 6, 5), dynamic={0: [0]}),
    case("...,...->...", r(2, 3), r(3), dynamic={0: [0]}),
    case(" i j , j k -> k i ", r(2, 3), r(3, 4)),
    case("abcdefghijklmno,opqrstuvwxyzABC->aC", r(2, *[1] * 13, 3), r(3, *[1] * 13, 2), opsets=(9, 20)),
    case("abcdefghijklmnopqrstuvwxyzAA->bA", r(*[1] * 26, 2, 2), opsets=(12, 20)),
)
def test_equations(check):
    check()


@cases(
    case("...i,...i->...", r(1, 1), r(6, 2), dynamic={1: [0]}),
    case("...i,...i->...", r(1, 3, 3, 1), r(2, 3, 3, 2), dynamic={1: [0, 3]}),
    case("bij,bjk->bik", r(1, 2, 3), r(4, 3, 5), dynamic={1: [0]}, emits={"MatMul"}),
    case("bijk,bkl->bijl", r(1, 2, 3, 4), r(5, 4, 2), dynamic={1: [0]}),
    case("bi,bj,bk->bijk", r(1, 2), r(3, 2), r(1, 2), dynamic={1: [0]}),
)
def test_broadcast_axes(check):
    check()
