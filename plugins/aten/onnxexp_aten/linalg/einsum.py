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
from onnxexp_aten.support.kernel_dtypes import compute, has_operator
from onnxexp_aten.support.read_arguments import rank_of
from onnxexp_aten.support.tensor_sizes import size_at, vector, with_shape
from onnxexp_aten.support.type_promotion import promote
from onnxexp_aten.support.view_nodes import permuted, swapped, unsqueezed

table = SymbolicTable("aten")

_EINSUM_DTYPES = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32)


@table("einsum")
def einsum(op: Builder, equation: str, tensors: list[Tensor], path: Any) -> Tensor:
    """einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"""
    tensors = promote(op, *tensors, dtype=out_dtype(op))  # a sum of ints alone is int64
    terms, result = _one_letter_per_axis(op, equation, tensors)
    plain = all(len(set(term)) == len(term) for term in terms)
    has_einsum = has_operator(op, "Einsum")
    if plain and len(terms) == 2:
        composed = _contract_with_matmul(
            op, tensors, terms, result, flatten=not has_einsum or tensors[0].dtype not in _EINSUM_DTYPES
        )
        if composed is not None:
            return composed
    if plain and not has_einsum:
        return _contract_in_turn(op, tensors, terms, result)
    tensors = _expand_axes_of_size_1(op, tensors, terms)  # ONNX's shape inference takes the first size of a letter
    dtype = tensors[0].dtype
    if dtype in _EINSUM_DTYPES:
        computed = dtype
    else:
        computed = torch.float32 if dtype.is_floating_point else torch.int32
    contracted = op.Einsum(*(op.cast(tensor, computed) for tensor in tensors), equation=f"{','.join(terms)}->{result}")
    return op.cast(contracted, dtype)


@table("inner")
def inner(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """inner(Tensor self, Tensor other) -> Tensor"""
    left, right = rank_of(op, self), rank_of(op, other)
    if not left or not right:
        return compute(op, "Mul", self, other)
    if right <= 2:
        return product(op, self, other if right == 1 else swapped(op, other, 0, 1))
    letters = string.ascii_lowercase
    rows, columns, summed = letters[: left - 1], letters[left - 1 : left + right - 2], letters[left + right - 2]
    result = _contract_with_matmul(op, [self, other], [rows + summed, columns + summed], rows + columns, flatten=True)
    assert result is not None
    return result


def _one_letter_per_axis(op: Builder, equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return an equation's terms and result with one letter for each axis.

    The axes that `...` stands for get letters too. Raises LoweringError for more axes than letters.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    dot_counts = [
        rank_of(op, tensor) - len(term) + 3 if "..." in term else 0 for term, tensor in zip(terms, tensors, strict=True)
    ]
    used = sorted(set(left) - set(",."), key=lambda letter: (letter.islower(), letter))
    if not arrow:  # letters that occur once, in torch's order: capitals first
        right = ("..." if "..." in left else "") + "".join(letter for letter in used if left.count(letter) == 1)
    if (count := len(set(used) - {"."}) + max(dot_counts)) > len(string.ascii_letters):
        raise op.error(f"the equation has {count} axes, and there are {len(string.ascii_letters)} letters for them")
    names = iter(string.ascii_letters)
    dots = "".join(itertools.islice(names, max(dot_counts)))
    renamed = dict(zip(used, names, strict=False))

    def with_new_letters(term: str, dot_count: int) -> str:
        before, ellipsis, after = term.partition("...")
        dot_letters = dots[len(dots) - dot_count :] if ellipsis else ""
        return "".join(renamed[letter] for letter in before) + dot_letters + "".join(renamed[letter] for letter in after)

    new_terms = [with_new_letters(term, dot_count) for term, dot_count in zip(terms, dot_counts, strict=True)]
    return new_terms, with_new_letters(right, len(dots))


def _contract_with_matmul(
    op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], result: str, *, flatten: bool
) -> Tensor | None:
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
        return _multiply_and_sum(op, tensors, terms, result)  # a product without a sum
    if alone or _is_broadcast(op, tensors, terms, over):
        return _multiply_and_sum(op, tensors, terms, result) if flatten else None
    if max(map(len, (over, rows, columns))) > 1:
        return (
            _contract_flattened(op, _expand_axes_of_size_1(op, tensors, terms), terms, result, (batch, over, rows, columns))
            if flatten
            else None
        )
    first = permuted(op, a, [left.index(letter) for letter in batch + rows + over])
    second = permuted(op, b, [right.index(letter) for letter in batch + over + columns])
    if not rows and batch:
        first = unsqueezed(op, first, [len(batch)])
    if not columns and batch:
        second = unsqueezed(op, second, [len(batch) + 1])
    contracted = product(op, first, second)
    squeezed = [len(batch) + place for place, letters in enumerate((rows, columns)) if not letters] if batch else []
    contracted = op.Squeeze(contracted, axes=squeezed) if squeezed else contracted
    order = batch + rows + columns
    return permuted(op, contracted, [order.index(letter) for letter in result])


def _is_broadcast(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], letters: str) -> bool:
    """Return whether an axis is broadcast: 1 in one tensor, larger in the other."""
    (a, b), (left, right) = tensors, terms
    return any((a.shape or ())[left.index(letter)] != (b.shape or ())[right.index(letter)] for letter in letters)


def _expand_axes_of_size_1(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str]) -> list[Tensor]:
    """Give axes of size 1 the size that their letter has elsewhere."""
    sizes: dict[str, Any] = {}
    for tensor, term in zip(tensors, terms, strict=True):
        for place, letter in enumerate(term):
            if (tensor.shape or ())[place] != 1:
                sizes.setdefault(letter, size_at(op, tensor, place))
    expanded = []
    for tensor, term in zip(tensors, terms, strict=True):
        target = [sizes.get(letter, 1) if size == 1 else 1 for letter, size in zip(term, tensor.shape or (), strict=True)]
        unchanged = all(isinstance(size, int) and size == 1 for size in target)
        expanded.append(tensor if unchanged else op.Expand(tensor, vector(op, target)))
    return expanded


def _contract_flattened(
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
        return op.Reshape(x, vector(op, [_product_of_sizes(op, [sizes[letter] for letter in group]) for group in order]))

    contracted = product(op, grouped(a, left, (batch, rows, over)), grouped(b, right, (batch, over, columns)))
    order = batch + rows + columns
    contracted = with_shape(
        op.Reshape(contracted, vector(op, [sizes[letter] for letter in order])),
        [_size_of_letter(tensors, terms, letter) for letter in order],
    )
    return permuted(op, contracted, [order.index(letter) for letter in result])


def _size_of_letter(tensors: Sequence[Tensor], terms: Sequence[str], letter: str) -> Any:
    """Return the size of a letter, from the shape of a tensor that has it."""
    tensor, term = next((tensor, term) for tensor, term in zip(tensors, terms, strict=True) if letter in term)
    return (tensor.shape or ())[term.index(letter)]


def _product_of_sizes(op: Builder, sizes: Sequence[Any]) -> Any:
    total: Any = 1
    for size in sizes:
        if isinstance(total, int) and isinstance(size, int):
            total *= size
        else:
            total = size if isinstance(total, int) and total == 1 else op.Mul(total, size)
    return total


def _multiply_and_sum(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], result: str) -> Tensor:
    """Contract by broadcasting: elementwise products and one sum."""
    order = result + "".join(sorted(set("".join(terms)) - set(result)))
    product_of_all: Tensor | None = None
    for tensor, term in zip(tensors, terms, strict=True):
        present = [letter for letter in order if letter in term]
        ordered = permuted(op, tensor, [term.index(letter) for letter in present])
        aligned = unsqueezed(op, ordered, [place for place, letter in enumerate(order) if letter not in term])
        product_of_all = aligned if product_of_all is None else op.Mul(product_of_all, aligned)
    assert product_of_all is not None
    summed = list(range(len(result), len(order)))
    if not summed:
        return product_of_all
    if product_of_all.dtype in (torch.uint8, torch.int8, torch.int16):
        return op.cast(op.ReduceSum(op.cast(product_of_all, torch.int32), axes=summed, keepdims=0), product_of_all.dtype)
    return op.ReduceSum(product_of_all, axes=summed, keepdims=0)


def _contract_in_turn(op: Builder, tensors: Sequence[Tensor], terms: Sequence[str], result: str) -> Tensor:
    """Contract from left to right, keeping the letters still needed."""
    if len(terms) == 1:
        return _multiply_and_sum(op, tensors, terms, result)
    contracted, term = tensors[0], terms[0]
    for place in range(1, len(terms)):
        later = set("".join(terms[place + 1 :])) | set(result)
        kept = "".join(letter for letter in dict.fromkeys(term + terms[place]) if letter in later)
        target = result if place == len(terms) - 1 else kept
        contracted = (
            _contract_with_matmul(op, [contracted, tensors[place]], [term, terms[place]], target, flatten=True) or contracted
        )
        term = target
    return contracted
