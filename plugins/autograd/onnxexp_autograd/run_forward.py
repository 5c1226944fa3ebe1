"""Run a Function's forward, to inline it or to find its results' form.

A forward that cannot run on fake tensors runs on zeros of the example's sizes, then once for each dynamic size increased by one.
The differences are the slopes of the result sizes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from onnxexp_autograd.function_ops import Arguments, Function, Placeholder
from onnxexp_autograd.interception import class_attribute, pause_diversion
from onnxexp_autograd.torch_internals import (
    FunctionCtx,
    detect_fake_mode,
    disable_current_modes,
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


Run = Callable[[Sequence[Any]], Sequence[torch.Tensor]]
"""A forward as a function from the varying arguments to its result tensors."""


@dataclasses.dataclass(frozen=True)
class Size:
    """A dynamic size of a call.

    Attributes:
        argument: The index of the varying argument.
        axis: The axis of the argument; -1 if the argument itself is the size.
        example: The size in the example.
    """

    argument: int
    axis: int
    example: int

    def of(self, varying: Sequence[Any]) -> Any:
        """Return the size in a call with these varying arguments."""
        argument = varying[self.argument]
        return argument if self.axis < 0 else argument.shape[self.axis]


@dataclasses.dataclass(frozen=True)
class ResultShapes:
    """Dtypes and shapes of the results, as a linear function of the dynamic sizes.

    Attributes:
        sizes: The dynamic sizes of the call.
        shapes: The shape of each result at the example's sizes.
        dtypes: The dtype of each result.
        slopes: For each result and axis, the growth of its size per dynamic size.
    """

    sizes: tuple[Size, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]
    slopes: tuple[tuple[tuple[int, ...], ...], ...]

    def results(self, varying: Sequence[Any]) -> list[torch.Tensor]:
        """Return empty tensors shaped like the results for these arguments."""
        like = next(each for each in varying if isinstance(each, torch.Tensor))
        growths = [size.of(varying) - size.example for size in self.sizes]
        results = []
        for shape, slopes, dtype in zip(self.shapes, self.slopes, self.dtypes, strict=True):
            full = [
                base + sum(slope * growth for slope, growth in zip(per_size, growths, strict=True) if slope)
                for base, per_size in zip(shape, slopes, strict=True)
            ]
            results.append(like.new_empty(full, dtype=dtype))
        return results


def find_result_shapes(run: Run, varying: Sequence[Any]) -> ResultShapes | None:
    """Run a forward at several sizes to find the shapes of its results.

    Returns None if a size has no value in the example or no argument is a tensor. Exceptions of the forward pass through.
    """
    sizes = _sizes(varying)
    if sizes is None or not any(isinstance(each, torch.Tensor) for each in varying):
        return None
    names = [_name(each.of(varying)) for each in sizes]
    with disable_current_modes():
        base = run(_real(varying, {}))
        others = [run(_real(varying, {name: 1})) for name in names]
    slopes = tuple(
        tuple(tuple(other[number].shape[axis] - size for other in others) for axis, size in enumerate(tensor.shape))
        for number, tensor in enumerate(base)
    )
    shapes = tuple(tuple(int(size) for size in tensor.shape) for tensor in base)
    return ResultShapes(tuple(sizes), shapes, tuple(tensor.dtype for tensor in base), slopes)


def _name(size: Any) -> str:
    return str(size.node.expr)


def _sizes(varying: Sequence[Any]) -> list[Size] | None:
    """Return each dynamic size once, or None if one has no value in the example."""
    found: dict[str, Size] = {}
    for number, each in enumerate(varying):
        pairs = enumerate(each.shape) if isinstance(each, torch.Tensor) else [(-1, each)]
        for axis, size in pairs:
            if isinstance(size, torch.SymInt):
                hint = size.node.hint
                if hint is None:
                    return None
                found.setdefault(_name(size), Size(number, axis, int(hint)))
    return list(found.values())


def _real(varying: Sequence[Any], growth: dict[str, int]) -> list[Any]:
    def number(size: Any) -> Any:
        return size if not isinstance(size, torch.SymInt) else int(size.node.hint) + growth.get(_name(size), 0)

    return [
        torch.zeros([number(size) for size in each.shape], dtype=each.dtype) if isinstance(each, torch.Tensor) else number(each)
        for each in varying
    ]
