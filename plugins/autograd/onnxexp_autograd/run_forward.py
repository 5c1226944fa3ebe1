"""Run a Function's forward, to inline it or to find its results' form."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from onnxexp_autograd.function_ops import Arguments, Function, Placeholder
from onnxexp_autograd.interception import class_attribute, pause_diversion
from onnxexp_autograd.shapes_without_fake import ResultShapes, find_result_shapes
from onnxexp_autograd.torch_internals import (
    FunctionCtx,
    detect_fake_mode,
    disable_proxy_modes_tracing,
    is_alias_of,
    set_tracing_state,
    tracing_state,
)


class ForwardResult(NamedTuple):
    """The results of a forward.

    Attributes:
        returned: The nested results, with a `Placeholder` in place of each tensor.
        tensors: The tensors, in the order of the placeholders.
        written: (result, argument) index pairs of returned arguments that the forward wrote into.
        shared: (result, argument) index pairs of results that may share memory with an argument.
        lost: Whether the forward wrote into an argument that it does not return.
    """

    returned: Any
    tensors: list[torch.Tensor]
    written: tuple[tuple[int, int], ...]
    shared: tuple[tuple[int, int], ...]
    lost: bool


class _Context(FunctionCtx):
    """The `ctx` of a forward without a backward."""

    saved: tuple[Any, ...] = ()

    def __init__(self, args: Sequence[Any]) -> None:
        self.needs_input_grad = tuple(isinstance(each, torch.Tensor) and each.requires_grad for each in args)

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Ignore the tensors, since the plugin has no forward-mode differentiation."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.saved


def bind_arguments(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
    """Bind a call's arguments to positions.

    Only a Function with setup_context accepts keywords and defaults.
    """
    if not _has_setup(function):
        return args
    bound = inspect.signature(function.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _has_setup(function: Any) -> bool:
    return class_attribute(function, "setup_context") is not class_attribute(torch.autograd.Function, "setup_context")


def inline(function: Any, *args: Any) -> Any:
    """Run the forward as plain code, so that its operators are captured."""
    return function.forward(*args) if _has_setup(function) else function.forward(_Context(args), *args)


def run(function: Any, arguments: Arguments, varying: Sequence[Any]) -> ForwardResult:
    """Run the forward on copies of its tensors.

    An operator must neither write into its arguments nor return them.
    """
    with pause_diversion():
        copies = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in varying]
        versions = [_version(each) for each in copies]
        args = arguments.fill(copies)
        context: Any = _Context(args)
        if _has_setup(function):
            output = function.forward(*args)
            function.setup_context(context, tuple(args), output)
        else:
            output = function.forward(context, *args)
        dirty = {id(each) for each in vars(context).get("dirty_tensors") or ()}
        dirty |= {id(each) for each, before in zip(copies, versions, strict=True) if _version(each) != before}
        return _result(output, copies, varying, dirty)


def _version(argument: Any) -> int:
    """Return the number of writes into a tensor; inference tensors have no counter."""
    return argument._version if isinstance(argument, torch.Tensor) and not argument.is_inference() else 0


def _result(output: Any, copies: Sequence[Any], originals: Sequence[Any], dirty: set[int]) -> ForwardResult:
    tensors: list[torch.Tensor] = []
    written: list[tuple[int, int]] = []
    shared: list[tuple[int, int]] = []

    def placeholder(tensor: torch.Tensor) -> Placeholder:
        argument = next((number for number, each in enumerate(copies) if _shares(tensor, each)), None)
        if argument is not None:
            returned = copies[argument] is tensor and id(tensor) in dirty
            (written if returned else shared).append((len(tensors), argument))
        aliased = argument is not None or any(_shares(tensor, each) for each in (*originals, *tensors))
        tensors.append(tensor.clone() if aliased else tensor)
        return Placeholder(len(tensors) - 1)

    returned = pytree.tree_map_only(torch.Tensor, placeholder, output)
    lost = dirty - {id(copies[argument]) for _, argument in written}
    return ForwardResult(returned, tensors, tuple(written), tuple(shared), bool(lost))


def _shares(one: Any, two: Any) -> bool:
    return isinstance(two, torch.Tensor) and (one is two or is_alias_of(one, two))


@contextlib.contextmanager
def _no_jit_tracing() -> Iterator[None]:
    """Suspend torch.jit.trace."""
    state = tracing_state()
    set_tracing_state(None)
    try:
        yield
    finally:
        set_tracing_state(state)


def probe(function: Function, arguments: Arguments, varying: Sequence[Any]) -> tuple[ForwardResult, ResultShapes | None]:
    """Run the forward outside of the capture, on fake or else real tensors."""
    mode = detect_fake_mode(list(varying))
    env = mode.shape_env if mode is not None else None
    ignoring = env.ignore_fresh_unbacked_symbols() if env is not None else contextlib.nullcontext()
    with disable_proxy_modes_tracing(), ignoring, _no_jit_tracing():
        try:
            return run(function, arguments, varying), None
        except Exception:  # the user's forward may raise anything on fake tensors; it then runs on real ones
            if mode is None:
                raise
            results: list[ForwardResult] = []

            def on_real(real: Sequence[Any]) -> list[torch.Tensor]:
                results.append(run(function, arguments, real))
                return results[-1].tensors

            shapes = find_result_shapes(on_real, varying)
            if shapes is None:
                raise
            return results[0], shapes
