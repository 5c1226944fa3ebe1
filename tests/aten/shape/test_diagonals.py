"""shape/diagonals.py: diagonals, and strided views of them."""

from __future__ import annotations

import torch

from onnxexp.testing import Case, cases

torch.manual_seed(0)

X, SQUARE = torch.randn(3, 4), torch.randn(4, 4)

LAYER = torch.nn.Linear(6, 8).requires_grad_(False)


def overlapping(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Cut chunks and windows that overlap by half, as Longformer's attention does."""
    heads = LAYER(x.transpose(0, 1)).view(8, 2, 2, 4).transpose(0, 1).transpose(1, 2).reshape(4, 8, 4)
    rows, padded = heads.view(4, 2, 4, 4), torch.nn.functional.pad(heads, (0, 0, 2, 2), value=-1.0)
    chunk, window = rows.stride(), padded.stride()
    chunks = rows.as_strided((4, 3, 4, 4), (chunk[0], chunk[1] // 2, *chunk[2:]))
    return chunks, padded.as_strided((4, 4, 6, 4), (window[0], 2 * window[1], *window[1:]))


@cases(
    *(Case(lambda x, k=k: x.diagonal(k), X, name=f"diagonal_{k}") for k in (-1, 0, 2)),
    *(
        Case(lambda x, k=k: x.diagonal(k, 0, 2), torch.randn(3, 2, 4), dynamic={0: [0, 1]}, name=f"dynamic_{k}")
        for k in (-1, 0, 2)
    ),
    Case(lambda x: torch.linalg.diagonal(x), torch.randn(2, 3, 4), name="linalg_diagonal"),
    Case(torch.diag, X, name="diag"),
    Case(torch.diag, torch.randn(3), dynamic={0: [0]}, opsets=(11, 13, 20), name="diag_of_vector"),
    Case(torch.diag_embed, torch.randn(2, 3), dynamic={0: [0]}),
    Case(lambda x: 1 / torch.diag_embed(x), torch.tensor([[-0.0, 0.0, 2.0]]), dynamic={0: [1]}, name="zeros on a diagonal"),
    Case(torch.trace, X),
    Case(torch.trace, torch.randint(0, 99, (2, 5), dtype=torch.uint8), name="trace_of_bytes"),
    Case(lambda x: torch.as_strided(x, (2, 3), (1, 2), 1), torch.randn(8), emits={"Gather"}, name="as_strided"),
    Case(lambda x: torch.as_strided(x, (2, 3), (1, 2), 1), torch.randn(8), dynamic={0: [0]}, name="as_strided_dynamic"),
    Case(lambda x: x.to(torch.zeros(2)).as_strided((1, 2), (1, 2), 0), torch.randn(3, 4), name="as_strided_of_the_same_tensor"),
    Case(lambda x: x.t().as_strided((3,), (1,), 0), SQUARE, opsets=(9, 20), name="as_strided_transposed"),
    Case(lambda x: x.t().as_strided((3,), (1,)), SQUARE, dynamic={0: [0]}, opsets=(9, 20), name="as_strided_transposed_dynamic"),
    Case(lambda x: x[1:].as_strided((2,), (2,), 0), SQUARE, dynamic={0: [0]}, opsets=(9, 20), name="as_strided_rows"),
    Case(lambda x: x[None].expand_as(x[None]).as_strided((2,), (2,), 1), SQUARE, opsets=(20,), name="as_strided_expanded"),
    Case(lambda x: x.expand_as(x).clone().as_strided((2,), (3,), 1), SQUARE, opsets=(20,), name="as_strided_of_a_copy"),
    Case(lambda x: torch.broadcast_tensors(x, x)[0].as_strided((2,), (3,), 1), SQUARE, opsets=(20,), name="as_strided_broadcast"),
    Case(lambda x: x.movedim(0, 1).as_strided((3,), (1,), 1), SQUARE, dynamic={0: [0]}, opsets=(20,), name="as_strided_moved"),
    Case(lambda x: x[1:, 1:].as_strided((2,), (2,)), SQUARE, opsets=(9, 20), name="as_strided_inner"),
    Case(
        lambda x: x.chunk(2, -1)[0].as_strided((2,), (2,), 1), SQUARE, dynamic={0: [0]}, opsets=(10, 20), name="as_strided_chunk"
    ),
    Case(lambda x: x.t().contiguous().as_strided((2,), (1,)), SQUARE, dynamic={0: [0]}, opsets=(20,), name="as_strided_copied"),
    Case(lambda x: x.t().reshape(-1).as_strided((2,), (1,), 1), SQUARE, opsets=(20,), name="as_strided_reshaped"),
    Case(lambda x: torch.as_strided_copy(x[:, 2], (2,), (4,)), SQUARE, opsets=(20,), name="as_strided_copy_of_a_column"),
    Case(lambda x: x.mm(x.t()).as_strided((2,), (3,), 1), SQUARE, dynamic={0: [0]}, opsets=(20,), name="as_strided_product"),
    Case(overlapping, torch.randn(2, 8, 6), opsets=(9, 20)),
    Case(lambda x: torch.as_strided(x, (3, 4), (4, 1)), X, emits={"Identity"}, name="as_strided_same"),
    Case(lambda x: torch.as_strided(x, (2, 6), (6, 1)), X, name="as_strided_view"),
)
def test_diagonals(check):
    check()
