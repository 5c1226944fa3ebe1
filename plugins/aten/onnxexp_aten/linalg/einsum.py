"""torch.einsum as Einsum, or as transpositions and matrix products.

Products serve opsets without Einsum, and equations of one plain MatMul.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Sequence
from typing import Any

import torch

from onnxexp import Builder, SymbolicTable, Tensor
from onnxexp_aten.creation.filled_tensors import out_dtype
from onnxexp_aten.linalg.matmul import product
from onnxexp_aten.support.arguments import rank_of
from onnxexp_aten.support.kernel_dtypes import compute, has_operator
from onnxexp_aten.support.tensor_sizes import size_at, vector, with_shape
from onnxexp_aten.support.type_promotion import promote
from onnxexp_aten.support.view_nodes import permuted, swapped, unsqueezed

table = SymbolicTable("aten")

_EINSUM_DTYPES = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32)


@table("einsum")
def einsum(op: Builder, equation: str, tensors: list[Tensor], path: Any) -> Tensor:
    """einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    tensors = promote(op, *tensors, dtype=out_dtype(op))  # a sum of ints alone is int64
    terms, result = _letters(op, equation, tensors)
    plain = all(len(set(term)) == len(term) for term in terms)
    has_einsum = has_operator(op, "Einsum")
    if plain and len(terms) == 2:
        composed = _matmul(op, tensors, terms, result, flatten=not has_einsum or tensors[0].dtype not in _EINSUM_DTYPES)
        if composed is not None:
            return composed
    if plain and not has_einsum:
        return _chained(op, tensors, terms, result)
    tensors = _expanded(op, tensors, terms)  # ONNX's shape inference takes the first size of a letter
    dtype = tensors[0].dtype
    wide = dtype if dtype in _EINSUM_DTYPES else torch.float32 if dtype.is_floating_point else torch.int32
    written = op.Einsum(*(op.cast(tensor, wide) for tensor in tensors), equation=f"{','.join(terms)}->{result}")
    return op.cast(written, dtype)


@table("inner")
def inner(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """inner(Tensor self, Tensor other) -> Tensor"""
    left, right = rank_of(op, self), rank_of(op, other)
    if not left or not right:
        return compute(op, "Mul", self, other)
    if right <= 2:
        return product(op, self, other if right == 1 else swapped(op, other, 0, 1))
    letters = string.ascii_lowercase
    one, two, over = letters[: left - 1], letters[left - 1 : left + right - 2], letters[left + right - 2]
    made = _matmul(op, [self, other], [one + over, two + over], one + two, flatten=True)
    assert made is not None
    return made


def _letters(op: Builder, equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return an equation's terms and result in lower-case letters, one per axis.

    Axes under `...` get letters too.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    widest = max(
        (rank_of(op, tensor) - len(term) + 3 for term, tensor in zip(terms, tensors, strict=True) if "..." in term), default=0
    )
    used = sorted(set(left) - set(",."), key=lambda letter: (letter.islower(), letter))
    if not arrow:  # letters that occur once, in torch's order: capitals first
        right = ("..." if "..." in left else "") + "".join(letter for letter in used if left.count(letter) == 1)
    names = iter(string.ascii_lowercase)
    dots = "".join(itertools.islice(names, widest))
    renamed = dict(zip(used, names, strict=False))

    def spelled(term: str, count: int) -> str:
        before, three, after = term.partition("...")
        hidden = dots[len(dots) - count :] if three else ""
        return "".join(renamed[letter] for letter in before) + hidden + "".join(renamed[letter] for letter in after)

    counts = [rank_of(op, tensor) - len(term) + 3 if "..." in term else 0 for term, tensor in zip(terms, tensors, strict=True)]
    return [spelled(term, count) for term, count in zip(terms, counts, strict=True)], spelled(right, len(dots))


def _matmul(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], result: str, *, flatten: bool) -> Tensor | None:
    """Contract two tensors with MatMul.

    Without `flatten`, returns None where this takes a reshape or a separate sum. A product without a sum is a Mul.
    """
    (a, b), (left, right) = tensors, terms
    common = "".join(letter for letter in left if letter in right)
    batch = "".join(letter for letter in result if letter in common)
    over = "".join(letter for letter in common if letter not in result)
    rows = "".join(letter for letter in result if letter in left and letter not in common)
    columns = "".join(letter for letter in result if letter in right and letter not in common)
    alone = [letter for letter in left + right if letter not in common and letter not in result]
    if not alone and not over:
        return _spread(op, tensors, terms, result)  # a product without a sum
    if alone or _broadcasts(op, tensors, terms, over):
        return _spread(op, tensors, terms, result) if flatten else None
    if max(map(len, (over, rows, columns))) > 1:
        return _flattened(op, _expanded(op, tensors, terms), terms, result, (batch, over, rows, columns)) if flatten else None
    first = permuted(op, a, [left.index(letter) for letter in batch + rows + over])
    second = permuted(op, b, [right.index(letter) for letter in batch + over + columns])
    if not rows and batch:
        first = unsqueezed(op, first, [len(batch)])
    if not columns and batch:
        second = unsqueezed(op, second, [len(batch) + 1])
    made = product(op, first, second)
    squeezed = [len(batch) + place for place, letters in enumerate((rows, columns)) if not letters] if batch else []
    made = op.Squeeze(made, axes=squeezed) if squeezed else made
    order = batch + rows + columns
    return permuted(op, made, [order.index(letter) for letter in result])


def _broadcasts(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], letters: str) -> bool:
    """Return whether an axis is broadcast: 1 in one tensor, larger in the other."""
    (a, b), (left, right) = tensors, terms
    return any((a.shape or ())[left.index(letter)] != (b.shape or ())[right.index(letter)] for letter in letters)


def _expanded(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str]) -> list[Tensor]:
    """Give axes of size 1 the size that their letter has elsewhere."""
    sizes: dict[str, Any] = {}
    for tensor, term in zip(tensors, terms, strict=True):
        for place, letter in enumerate(term):
            if (tensor.shape or ())[place] != 1:
                sizes.setdefault(letter, size_at(op, tensor, place))
    made = []
    for tensor, term in zip(tensors, terms, strict=True):
        target = [sizes.get(letter, 1) if size == 1 else 1 for letter, size in zip(term, tensor.shape or (), strict=True)]
        alike = all(isinstance(size, int) and size == 1 for size in target)
        made.append(tensor if alike else op.Expand(tensor, vector(op, target)))
    return made


def _flattened(
    op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], result: str, groups: tuple[str, str, str, str]
) -> Tensor:
    """Contract with each group of letters flattened into one axis."""
    (a, b), (left, right) = tensors, terms
    batch, over, rows, columns = groups
    sizes = {
        letter: size_at(op, tensor, place)
        for tensor, term in zip(tensors, terms, strict=True)
        for place, letter in enumerate(term)
    }

    def grouped(x: Tensor, term: str, order: Sequence[str]) -> Tensor:
        x = permuted(op, x, [term.index(letter) for letter in "".join(order)])
        return op.Reshape(x, vector(op, [_total(op, [sizes[letter] for letter in group]) for group in order]))

    made = product(op, grouped(a, left, (batch, rows, over)), grouped(b, right, (batch, over, columns)))
    order = batch + rows + columns
    made = with_shape(
        op.Reshape(made, vector(op, [sizes[letter] for letter in order])), [_dim(tensors, terms, letter) for letter in order]
    )
    return permuted(op, made, [order.index(letter) for letter in result])


def _dim(tensors: Sequence[Tensor], terms: Sequence[str], letter: str) -> Any:
    """Return the size of a letter, from the shape of a tensor that has it."""
    tensor, term = next((tensor, term) for tensor, term in zip(tensors, terms, strict=True) if letter in term)
    return (tensor.shape or ())[term.index(letter)]


def _total(op: Builder, sizes: Sequence[Any]) -> Any:
    total: Any = 1
    for size in sizes:
        if isinstance(total, int) and isinstance(size, int):
            total *= size
        else:
            total = size if isinstance(total, int) and total == 1 else op.Mul(total, size)
    return total


def _spread(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], result: str) -> Tensor:
    """Contract by broadcasting: elementwise products and one sum."""
    order = result + "".join(sorted(set("".join(terms)) - set(result)))
    made: Tensor | None = None
    for tensor, term in zip(tensors, terms, strict=True):
        present = [letter for letter in order if letter in term]
        moved = permuted(op, tensor, [term.index(letter) for letter in present])
        wide = unsqueezed(op, moved, [place for place, letter in enumerate(order) if letter not in term])
        made = wide if made is None else op.Mul(made, wide)
    assert made is not None
    summed = list(range(len(result), len(order)))
    if not summed:
        return made
    if made.dtype in (torch.uint8, torch.int8, torch.int16):
        return op.cast(op.ReduceSum(op.cast(made, torch.int32), axes=summed, keepdims=0), made.dtype)
    return op.ReduceSum(made, axes=summed, keepdims=0)


def _chained(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], result: str) -> Tensor:
    """Contract from left to right, keeping the letters still needed."""
    if len(terms) == 1:
        return _spread(op, tensors, terms, result)
    made, term = tensors[0], terms[0]
    for place in range(1, len(terms)):
        later = set("".join(terms[place + 1 :])) | set(result)
        kept = "".join(letter for letter in dict.fromkeys(term + terms[place]) if letter in later)
        target = result if place == len(terms) - 1 else kept
        made = _matmul(op, [made, tensors[place]], [term, terms[place]], target, flatten=True) or made
        term = target
    return made
