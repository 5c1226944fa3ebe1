"""Replace torch's functions during captures.

torch.jit.script runs in the same hook, and compiles nothing but torch's own functions: attributes are replaced during captures of
torch.export only.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

from onnxexp import ExportContext, is_in_onnx_export
from onnxexp.frontends import redirected, replace_attributes
from onnxexp_aten.capture.causal_masks import imported_attention, masks_of_conditions
from onnxexp_aten.capture.computed_numbers import elementwise, losses, norms, resizing
from onnxexp_aten.capture.computed_sizes import COMPUTED_SIZES
from onnxexp_aten.capture.data_dependent_ops import DATA_DEPENDENT, keep_data_dependent_sizes
from onnxexp_aten.capture.indexed_pieces import export_with_pieces, traced_pieces
from onnxexp_aten.capture.module_casts import keep_modules
from onnxexp_aten.capture.recurrent_layers import composite_ops, keep_composite_ops
from onnxexp_aten.capture.size_functions import keep_size_functions
from onnxexp_aten.capture.slice_lengths import exact_slice_lengths
from onnxexp_aten.capture.stand_in_ops import define_operators
from onnxexp_aten.capture.unbacked_sizes import keep_unbacked_sizes

_OF_MODEL = "aten.of_model"
"""Key in `ExportContext.plugin_data`: the stack of what is replaced for one model."""
_Row: TypeAlias = tuple[Any, str, Callable[..., Any]]
"""A replacement, as (owner, attribute, function)."""
_COMPOSITIONS = {**norms.table, **losses.table, **elementwise.table, **resizing.table}
"""Compositions of operators that take computed numbers, by torch's function.

Where torch's operators take a float, both tracers record the example's. Operators that take a 0-d tensor record the number
itself.
"""


@contextlib.contextmanager
def keep_operators_whole(context: ExportContext) -> Iterator[None]:
    """Capture such operators as one node each, and computed sizes as symbols.

    Where the user passed a symbolic for an operator, calls of its function stay as they are.
    """
    claimed = context.options.user_claims
    define_operators()  # a trace takes shapes from these operators, too
    original: Any = torch.export.export

    @functools.wraps(original)
    def export(*args: Any, **options: Any) -> Any:
        if not is_in_onnx_export():  # another thread's own
            return original(*args, **options)
        strict = options.get("strict", False)
        rows = [*composite_ops(), *DATA_DEPENDENT, *COMPUTED_SIZES]

        def run(pieces: Sequence[_Row] = ()) -> Any:
            with redirected(_unclaimed([*rows, *pieces], claimed), args[0], attributes=strict, compositions=_COMPOSITIONS):
                return original(*args, **options)

        with (
            keep_composite_ops(),
            keep_data_dependent_sizes(),
            keep_unbacked_sizes(),
            contextlib.nullcontext() if strict else keep_size_functions(args[0]),  # strict mode knows them itself
            exact_slice_lengths(),
        ):
            if strict:  # it knows a tensor's methods itself
                return run()
            return _export_views(functools.partial(export_with_pieces, run, args[0]), args[0])

    with (
        replace_attributes([(torch.export, "export", export), keep_modules(), masks_of_conditions()]),
        contextlib.ExitStack() as context.plugin_data[_OF_MODEL],
    ):
        yield


def replace_in_files(context: ExportContext, model: Any) -> None:
    """Replace functions in the files of a model's classes, until the capture ends."""
    if isinstance(model, torch.nn.Module):
        context.plugin_data[_OF_MODEL].enter_context(replace_attributes(imported_attention(model)))


def redirect_traced(context: ExportContext) -> None:
    """Keep computed numbers and pieces in a trace."""
    compositions = dict.fromkeys(_COMPOSITIONS.values())
    rows = [(owner, name, composition.instead) for composition in compositions for owner, name in composition.places]
    for owner, name, replacement in _unclaimed([*rows, *traced_pieces()], context.options.user_claims):
        context.redirect(owner, name, replacement)


def _unclaimed(rows: Sequence[_Row], claimed: Collection[str]) -> list[_Row]:
    return [row for row in rows if f"aten::{row[1]}" not in claimed]


def _export_views(export: Callable[[], Any], model: torch.nn.Module) -> Any:
    """Run an export; if it changes the shape of an input and fails, run it on views.

    torch.export has no counterpart for ``x.unsqueeze_(0)`` of an input, which changes the shape of the caller's tensor: it takes
    the new sizes for those of the input.
    """
    forward = model.forward
    given: list[tuple[torch.Tensor, list[str]]] = []
    views = False

    @functools.wraps(forward)
    def call(*args: Any, **options: Any) -> Any:
        if views and is_in_onnx_export():  # not in another thread
            args, options = pytree.tree_map_only(torch.Tensor, torch.ops.aten.alias, (args, options))
        elif is_in_onnx_export():
            given[:] = [(leaf, _sizes(leaf)) for leaf in pytree.tree_leaves((args, options)) if isinstance(leaf, torch.Tensor)]
        return forward(*args, **options)

    with replace_attributes([(model, "forward", call)]):
        try:
            return export()
        except Exception:  # torch.export passes on any exception of the model
            if all(_sizes(tensor) == before for tensor, before in given):
                raise
        views = True
        return export()


def _sizes(tensor: torch.Tensor) -> list[str]:
    """List the sizes of a tensor as text: comparing them would be a guard."""
    return [*map(str, tensor.shape)]
