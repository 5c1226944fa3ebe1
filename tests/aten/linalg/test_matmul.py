"""linalg/matmul.py: products of matrices and vectors."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

r = torch.randn
WHOLE = [torch.randint(9, size) for size in ((3,), (2, 4), (4, 3))]


def conv1d(bias: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Apply GPT-2's linear layer."""
    return torch.addmm(bias, x.view(-1, x.shape[-1]), weight).view(x.shape[0], x.shape[1], weight.shape[1])


@cases(
    Case(torch.nn.Linear(4, 5), r(2, 4), dynamic={0: [0]}, emits={"Gemm"}, name="matrix"),
    Case(torch.nn.Linear(4, 5), r(2, 3, 4), dynamic={0: [0, 1]}, emits={"MatMul", "Add"}, name="batch"),
    Case(torch.nn.Linear(4, 5), r(4), emits={"MatMul", "Add"}, name="vector"),
    Case(torch.nn.Linear(4, 5, bias=False), r(2, 4), dynamic={0: [0]}, emits={"MatMul"}, name="no_bias"),
    Case(torch.nn.functional.linear, r(2, 4), r(5, 4), r(5), emits={"Gemm"}, name="run_time_weight"),
    Case(torch.nn.Linear(4, 5).double(), r(2, 4).double(), name="double"),
    Case(torch.nn.functional.linear, WHOLE[1], WHOLE[2].T.contiguous(), WHOLE[0], name="ints"),
    Case(torch.nn.Bilinear(3, 4, 5), r(2, 3), r(2, 4), dynamic={0: [0], 1: [0]}),
    Case(conv1d, r(5), r(2, 3, 4), r(4, 5), dynamic={1: [0, 1]}, emits={"MatMul", "Add"}),
)
def test_linear(check):
    check()


def powers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    row = x[0]
    plain = torch.vander(row), torch.vander(row, 1), torch.vander(row, 3, increasing=True), torch.vander(row, 0)
    return (*plain, torch.linalg.vander(x), torch.linalg.vander(x, N=2), torch.linalg.vander(x[0, 0], N=3))


@cases(
    Case(powers, torch.tensor([[0.0, -1.5, torch.inf, torch.nan], [3.0, -torch.inf, -0.0, 1.0]]), dynamic={0: [0]}),
    Case(powers, r(2, 3).double(), name="powers of doubles", opsets=(9, 20)),
    Case(powers, torch.tensor([[2, -3], [0, 12345678]]), name="powers of ints", opsets=(26,)),
    Case(lambda x: torch.vander(x, 3), torch.tensor([True, False]), name="powers of bools", opsets=(9, 20)),
    Case(lambda x: torch.linalg.vander(x, N=4), r(3), emits={"Unsqueeze": 1, "Pow": 1}, name="vander"),
)
def test_powers(check):
    check()


@cases(
    Case(torch.matmul, r(2, 3, 4), r(2, 4, 5), dynamic={0: [0, 1], 1: [0]}, emits={"MatMul"}, name="batch"),
    Case(torch.matmul, r(3), r(2, 3, 2), dynamic={1: [0]}, emits={"MatMul"}, name="vector_batch"),
    Case(torch.matmul, r(2, 1, 3, 4), r(5, 4, 2), emits={"MatMul"}, name="broadcast"),
    Case(torch.matmul, WHOLE[1].to(torch.int8), WHOLE[2].to(torch.int8), name="int8"),
    Case(torch.mm, r(2, 3), r(3, 4), emits={"MatMul"}),
    Case(torch.bmm, r(2, 2, 3), r(2, 3, 4), emits={"MatMul"}),
    Case(torch.mv, r(2, 3), r(3), emits={"Unsqueeze", "MatMul", "Squeeze"}),
    Case(lambda x, v: x.T @ v, r(3, 7), r(3), dynamic={0: [1]}, name="transposed_mv"),
    Case(lambda x, v: (x.mT.relu() * 2) @ v, r(2, 3, 7), r(3), dynamic={0: [0, 2]}, name="transposed_batch_mv"),
    Case(lambda x: torch.nn.functional.linear(x.T, x.T[0]), r(3, 3), name="transposed_linear_of_a_vector"),
    Case(torch.dot, r(3), r(3), emits={"MatMul"}),
    Case(torch.vdot, r(3), r(3), emits={"MatMul"}),
    Case(torch.inner, r(2, 3), r(4, 3), emits={"Transpose", "MatMul"}),
    Case(torch.inner, r(2, 3, 3), r(4, 2, 3), dynamic={0: [0, 1], 1: [0]}, name="inner_batches"),
    Case(torch.outer, r(3), r(4), dynamic={0: [0]}),
    Case(torch.kron, r(3, 2), r(2, 4)),
    Case(torch.kron, r(3, 2), r(4), dynamic={0: [0, 1], 1: [0]}, name="kron_dynamic"),
    Case(lambda x: torch.kron(x, x).flatten(0, 1).roll(1), r(3, 2), dynamic={0: [0, 1]}, opsets=(9, 20), name="kron_of_itself"),
    Case(torch.kron, r(2), r(2, 4), name="kron_ranks"),
    Case(lambda a, b: torch.tensordot(a, b, 1), r(3, 2), r(2, 4), emits={"MatMul"}, name="tensordot"),
    Case(lambda a, b: torch.tensordot(a, b, 2), r(3, 2, 5), r(2, 5, 4), name="tensordot_2"),
    Case(lambda a, b: torch.tensordot(a, b, 1), r(1, 8), r(1, 8), name="tensordot_of_a_size_1_left"),
    Case(lambda a, b: torch.tensordot(a, b, 1), r(3, 8), r(1, 4), name="tensordot_of_a_size_1_right"),
    Case(lambda a, b: torch.tensordot(a, b, 2), r(3, 1, 5), r(2, 5, 4), name="tensordot_of_a_size_1_among_two"),
    Case(
        lambda a, b: torch.tensordot(a, b, 1),
        r(3, 8),
        r(1, 4),
        dynamic={0: {0: "n"}, 1: {1: "m"}},
        name="tensordot_of_a_size_1_dynamic",
    ),
    Case(lambda a, b, c: torch.linalg.multi_dot([a, b, c]), r(3, 2), r(2, 5), r(5, 4), name="multi_dot"),
    Case(torch.linalg.vecdot, r(3, 2), r(3, 2)),
    Case(torch.linalg.cross, r(2, 3), r(2, 3)),
    Case(torch.linalg.cross, r(2, 3), r(1, 3), dynamic={0: [0]}, name="cross_broadcast"),
    Case(torch.cross, r(4, 3, 3), r(4, 3, 3), name="cross_of_the_first_axis_of_3"),
    Case(lambda x, y: torch.cross(x, y, dim=0), r(3, 4), r(3, 4), name="cross_along"),
)
def test_products(check):
    check()


@cases(
    Case(
        lambda b, x, w: torch.addmm(b, x, w, beta=2, alpha=3),
        r(5),
        r(2, 4),
        r(4, 5),
        dynamic={1: [0]},
        emits={"Gemm"},
        name="addmm",
    ),
    Case(lambda b, x, w: torch.addmm(b, x, w, beta=0.2, alpha=0.6), r(3), r(4, 0), r(0, 3), name="addmm of nothing"),
    Case(lambda b, x, w: torch.addmm(b, x, w, beta=0), r(5) / 0, r(2, 4), r(4, 5), emits={"MatMul"}, name="addmm_without"),
    Case(lambda b, x, w: torch.addmm(b, x.t(), w), r(3), r(4, 2), r(4, 3), emits={"Gemm"}, name="addmm_transposed"),
    Case(lambda b, x, w: torch.addmm(b, x, w, beta=2, alpha=3), *WHOLE, name="addmm_ints"),
    Case(lambda a, b, c: torch.addmv(a, b, c, beta=0.5, alpha=2), r(2), r(2, 3), r(3), name="addmv"),
    Case(
        lambda a, b, c: torch.baddbmm(a, b, c, beta=0.5, alpha=2),
        r(4),
        r(2, 3, 2),
        r(2, 2, 4),
        dynamic={1: [0], 2: [0]},
        name="baddbmm",
    ),
    Case(torch.addbmm, r(3, 4), r(2, 3, 2), r(2, 2, 4)),
    Case(torch.addr, r(3, 4), r(3), r(4)),
)
def test_sums(check):
    check()
