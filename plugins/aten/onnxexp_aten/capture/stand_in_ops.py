"""Operators that stand for torch's composites in a capture.

They compute output shapes only. torch would split these composites, read values that fake tensors lack, or derive shapes for the
example's sizes only. ``onnxexp_shapes::name`` stands for ``aten::name`` and has its schema, but for ``_pad_packed_sequence``: the
number of sequences comes last. A trace takes its shapes from them, too.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxexp_aten.creation.windows import WINDOWS

LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""The recurrent layers."""
CELLS = ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
"""The recurrent cells, which a trace keeps whole."""


_SYMBOLIC_SIZES = (
    "int[] indices",
    "int num_classes",
    "int window_length",
    "int? length",
    *(f"int[{n}] output_size" for n in (1, 2, 3)),
)
"""The arguments of torch's schemas that are symbolic in ours."""


@functools.cache
def define_operators() -> Any:
    """Define the operators, once per process."""
    library: Any = torch.library.Library("onnxexp_shapes", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, shapes in _SHAPES.items():
        schema = str(_overload(name)._schema).removeprefix("aten::")
        schema = schema.replace("(a)", "").replace("(a -> *)", "")  # a capture writes nothing through these views
        for size in _SYMBOLIC_SIZES:
            schema = schema.replace(size, f"Sym{size.capitalize()}")
        library.define(schema.replace("int total_length)", "SymInt total_length, SymInt batch)"))
        torch.library.register_fake(f"onnxexp_shapes::{name}", shapes, lib=library)
    return library


def _overload(name: str) -> torch._ops.OpOverload:
    packet, _, overload = name.partition(".")
    found: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")  # by the operator's name
    return found


def _layer(input: torch.Tensor, hx: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    """Infer the output shapes of a recurrent layer; `rest` begins with the parameters.

    Sizes that torch needs equal become one symbol or a number: a padded batch has the sizes of its states and weights.
    """
    states, (params, bidirectional) = hx if isinstance(hx, (list, tuple)) else (hx,), (rest[0], rest[5])
    padded = [input.shape[0 if rest[6] else 1]] if rest[6:] else []
    batches = [*padded, *(state.shape[1] for state in states)]
    for batch in batches[1:]:
        torch._check(batches[0] == batch)  # type: ignore[no-untyped-call]
    torch._check(input.shape[-1] == params[0].shape[1])  # type: ignore[no-untyped-call]
    width = states[0].shape[-1] * (2 if bidirectional else 1)
    return input.new_empty((*input.shape[:-1], width)), *(state.new_empty(state.shape) for state in states)


def _cell(input: torch.Tensor, hx: Any, w_ih: torch.Tensor, w_hh: torch.Tensor, *biases: Any) -> Any:
    """Infer the output shapes of a recurrent cell, which are those of its states."""
    states = hx if isinstance(hx, (list, tuple)) else (hx,)
    torch._check(input.shape[1] == w_ih.shape[1])  # type: ignore[no-untyped-call]
    torch._check(states[0].shape[1] == w_hh.shape[1])  # type: ignore[no-untyped-call]
    for state in states:
        torch._check(input.shape[0] == state.shape[0])  # type: ignore[no-untyped-call]
    results = tuple(state.new_empty((input.shape[0], *state.shape[1:])) for state in states)
    return results if isinstance(hx, (list, tuple)) else results[0]


def _pack(input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    context = torch.library.get_ctx()
    elements, steps = context.new_dynamic_size(min=1), context.new_dynamic_size(min=1)
    torch._check(input.shape[0 if batch_first else 1] == lengths.shape[0])  # type: ignore[no-untyped-call]
    torch._check(steps <= input.shape[1 if batch_first else 0])  # type: ignore[no-untyped-call]
    return input.new_empty((elements, *input.shape[2:])), torch.empty((steps,), dtype=torch.int64)


def _pad(
    data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, total_length: Any, batch: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    steps = batch_sizes.shape[0] if isinstance(total_length, int) and total_length <= 0 else total_length
    leading = (batch, steps) if batch_first else (steps, batch)
    return data.new_empty((*leading, *data.shape[1:])), torch.empty((batch,), dtype=torch.int64)


def _cov(self: torch.Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> torch.Tensor:
    dtype = self.dtype if aweights is None else torch.promote_types(self.dtype, aweights.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    one = self.dim() < 2 or self.shape[0] == 1
    return self.new_empty(() if one else (self.shape[0], self.shape[0]), dtype=dtype)


def _adaptive_max_pool(self: torch.Tensor, output_size: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (*self.shape[: -len(output_size)], *output_size)
    return self.new_empty(shape), self.new_empty(shape, dtype=torch.int64)


def _one_hot(self: torch.Tensor, num_classes: Any = -1) -> torch.Tensor:
    unknown = isinstance(num_classes, int) and num_classes == -1
    classes = torch.library.get_ctx().new_dynamic_size(min=1) if unknown else num_classes
    return self.new_empty((*self.shape, classes), dtype=torch.int64)


def _istft(
    self: torch.Tensor, n_fft: int, hop_length: Any = None, win_length: Any = None, window: torch.Tensor | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: Any = None, return_complex: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Infer the output shape of istft.

    torch would take a step for each sample of a window.
    """
    if length is None:
        length = (self.shape[-1] - 1) * (hop_length or n_fft // 4) + n_fft - (n_fft // 2 * 2 if center else 0)
    return self.new_empty((*self.shape[:-2], length), dtype=self.dtype if return_complex else self.real.dtype)


def _reshape_from_tensor(self: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    context = torch.library.get_ctx()
    return self.new_empty([context.new_dynamic_size() for _ in range(int(shape.shape[0]))])


def _window(window_length: Any, *parameters: Any, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    return torch.empty((window_length,), dtype=dtype)


def _narrow(self: torch.Tensor, dim: int, start: torch.Tensor, length: Any) -> torch.Tensor:
    sizes = list(self.shape)
    sizes[dim] = length
    return self.new_empty(sizes)


def _ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 1, zero_infinity: bool = False,
) -> torch.Tensor:  # fmt: skip
    return log_probs.new_empty(log_probs.shape[1:2] if log_probs.dim() == 3 and reduction == 0 else ())


def _diff(self: torch.Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> torch.Tensor:
    """Infer the output shape of diff."""
    parts = [part for part in (prepend, self, append) if part is not None]
    joined = torch.cat(parts, dim) if parts[1:] else self
    sizes = list(joined.shape)
    sizes[dim] = torch.sym_max(sizes[dim] - n, 0)  # type: ignore[no-untyped-call]
    return joined.new_empty(sizes)


def _trapezoid(y: torch.Tensor, x: torch.Tensor | None = None, *, dx: Any = 0.5, dim: int = -1) -> torch.Tensor:
    sizes = list(y.shape)
    del sizes[dim]
    return y.new_empty(sizes, dtype=torch.promote_types(torch.result_type(y, 0.5), y.dtype if x is None else x.dtype))


def _cdist(x1: torch.Tensor, x2: torch.Tensor, p: float = 2.0, compute_mode: int | None = None) -> torch.Tensor:
    torch._check(x1.shape[-1] == x2.shape[-1])  # type: ignore[no-untyped-call]
    return torch.empty_like(x1.sum(-1).unsqueeze(-1) + x2.sum(-1).unsqueeze(-2))


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any, enable_gqa: bool = False, **options: Any
) -> torch.Tensor:
    torch._check(query.shape[-1] == key.shape[-1])  # type: ignore[no-untyped-call]
    torch._check(key.shape[-2] == value.shape[-2])  # type: ignore[no-untyped-call]
    batches = [tensor.sum((-2, -1)) for tensor in (query, key, value)]
    batch = batches[0] if enable_gqa else batches[0] + batches[1] + batches[2]
    return query.new_empty((*batch.shape, query.shape[-2], value.shape[-1]))


def _fft(length: Callable[[Any], Any], to_real: bool, self: torch.Tensor, n: Any = None, dim: int = -1, norm: Any = None) -> Any:
    """Infer the output shape of a Fourier transform.

    `length` computes the length of the result from that of the input.
    """
    sizes = list(self.shape)
    sizes[dim] = length(sizes[dim]) if n is None else n if to_real else length(n)
    dtype = torch.result_type(self, 0.5)
    return self.new_empty(sizes, dtype=dtype.to_real() if to_real else dtype.to_complex())


def _lstsq(self: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> tuple[Any, ...]:
    """Infer the output shapes of linalg.lstsq for matrices of full rank.

    Without full rank torch returns no residuals, but the rank depends on values.
    """
    *batch, rows, columns = self.shape
    right = b.shape[self.dim() - 1 :]  # empty if each right-hand side is a vector
    driver = driver or "gelsy"
    summed = bool(rows > columns) and driver != "gelsy"
    return (
        self.new_empty((*batch, columns, *right)),
        self.new_empty((*batch, *(right or (1,))) if summed else (0,)),
        self.new_empty(batch if driver != "gels" else (0,), dtype=torch.int64),
        self.new_empty((*batch, min(rows, columns)) if driver in ("gelsd", "gelss") else (0,)),
    )


def _tensor_split_sections(self: torch.Tensor, sections: int, dim: int = 0) -> list[torch.Tensor]:
    """Infer tensor_split's output shapes for any remainder, which torch specialises."""
    torch._check(sections > 0, lambda: f"number of sections must be larger than 0, got {sections}")  # type: ignore[no-untyped-call]
    size = self.shape[dim]
    return _parts(self, dim, [(size + sections - 1 - index) // sections for index in range(sections)])


def _tensor_split_indices(self: torch.Tensor, indices: Sequence[Any], dim: int = 0) -> list[torch.Tensor]:
    """Infer tensor_split's output shapes at indices, with Python's slice semantics."""
    size = self.shape[dim]
    places = [0, *(_slice_bound(index, size) for index in indices), size]
    return _parts(self, dim, [_slice_length(start, end) for start, end in itertools.pairwise(places)])


def _slice_bound(index: Any, size: Any) -> Any:
    """Return a slice bound as a position on an axis, or None if its sign is unknown."""
    if statically_known_true(index >= 0):
        return torch.sym_min(index, size)  # type: ignore[no-untyped-call]
    if statically_known_true(index < 0):
        return torch.sym_max(size + index, 0)  # type: ignore[no-untyped-call]
    return None


def _slice_length(start: Any, end: Any) -> Any:
    if start is None or end is None:
        return torch.library.get_ctx().new_dynamic_size()
    return torch.sym_max(end - start, 0)  # type: ignore[no-untyped-call]


def _parts(self: torch.Tensor, dim: int, lengths: Sequence[Any]) -> list[torch.Tensor]:
    before, after = self.shape[:dim], self.shape[dim % self.dim() + 1 :]
    return [self.new_empty((*before, length, *after)) for length in lengths]


_SHAPES: dict[str, Callable[..., Any]] = {
    **{f"{layer}.input": _layer for layer in LAYERS},
    **{f"{layer}.data": lambda data, batch_sizes, *rest: _layer(data, *rest) for layer in LAYERS},
    **dict.fromkeys(CELLS, _cell),
    "_pack_padded_sequence": _pack,
    "_pad_packed_sequence": _pad,
    **dict.fromkeys((f"adaptive_max_pool{rank}d" for rank in (1, 2, 3)), _adaptive_max_pool),
    "cov": _cov,
    "corrcoef": lambda self: _cov(self),
    "cdist": _cdist,
    "ctc_loss.IntList": _ctc_loss,
    "ctc_loss.Tensor": _ctc_loss,
    "diff": _diff,
    "dsplit.array": lambda self, indices: _tensor_split_indices(self, indices, 2),
    **dict.fromkeys(("fft_fft", "fft_ifft"), functools.partial(_fft, lambda size: size, False)),
    **dict.fromkeys(("fft_rfft", "fft_ihfft"), functools.partial(_fft, lambda size: size // 2 + 1, False)),
    **dict.fromkeys(("fft_irfft", "fft_hfft"), functools.partial(_fft, lambda size: 2 * (size - 1), True)),
    "hsplit.array": lambda self, indices: _tensor_split_indices(self, indices, min(1, self.dim() - 1)),
    "istft": _istft,
    "kron": lambda self, other: self.new_empty(
        [one * two for one, two in itertools.zip_longest(self.shape[::-1], other.shape[::-1], fillvalue=1)][::-1],
        dtype=torch.result_type(self, other),
    ),
    "linalg_lstsq": _lstsq,
    "narrow.Tensor": _narrow,
    "one_hot": _one_hot,
    "_reshape_from_tensor": _reshape_from_tensor,
    **dict.fromkeys(("cummax", "cummin"), lambda self, dim: (torch.empty_like(self), torch.empty_like(self, dtype=torch.int64))),
    "roll": lambda self, shifts, dims=(): self.new_empty(self.shape),
    "scaled_dot_product_attention": _attention,
    "take": lambda self, index: self.new_empty(index.shape),
    "tensor_split.indices": _tensor_split_indices,
    "tensor_split.sections": _tensor_split_sections,
    **dict.fromkeys(("trapezoid.x", "trapezoid.dx", "trapz.x", "trapz.dx"), _trapezoid),
    "vsplit.array": _tensor_split_indices,
    **dict.fromkeys((f"{name}{overload}" for name in WINDOWS for overload in ("", ".periodic")), _window),
    **dict.fromkeys(("hamming_window.periodic_alpha", "hamming_window.periodic_alpha_beta", "kaiser_window.beta"), _window),
}
"""The function that computes the output shapes of each operator, by its name and overload."""
