"""Running a Function's forward: for its operators, or on copies, to learn what it returns."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from onnxexp_autograd.interception import class_attribute, paused
from onnxexp_autograd.learning import Learned, learn
from onnxexp_autograd.operators import Arguments, Function, Hole
from onnxexp_autograd.torch_internals import (
    FunctionCtx,
    detect_fake_mode,
    disable_proxy_modes_tracing,
    is_alias_of,
    set_tracing_state,
    tracing_state,
)

__all__ = ["Result", "bound", "inlined", "probe", "run"]


class Result(NamedTuple):
    """What a forward returned.

    Attributes:
        returned: How the results are nested, a `Hole` in the place of each tensor.
        tensors: Those.
        written: Of each that is an argument that was written into: (number of the result, of the argument).
        shared: Of each that may share memory with an argument: the same.
        lost: Was an argument written into that does not come back?
    """

    returned: Any
    tensors: list[torch.Tensor]
    written: tuple[tuple[int, int], ...]
    shared: tuple[tuple[int, int], ...]
    lost: bool


class _Context(FunctionCtx):
    """`ctx` of a forward that no backward follows."""

    saved: tuple[Any, ...] = ()

    def __init__(self, args: Sequence[Any]) -> None:
        self.needs_input_grad = tuple(isinstance(each, torch.Tensor) and each.requires_grad for each in args)

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Nothing is computed forward."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.saved


def bound(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
    """The arguments in order; a Function with setup_context takes keywords and defaults."""
    if not _has_setup(function):
        return args
    given = inspect.signature(function.forward).bind(*args, **kwargs)
    given.apply_defaults()
    return given.args


def _has_setup(function: Any) -> bool:
    return class_attribute(function, "setup_context") is not class_attribute(torch.autograd.Function, "setup_context")


def inlined(function: Any, *args: Any) -> Any:
    """The operators of the forward, without a boundary."""
    return function.forward(*args) if _has_setup(function) else function.forward(_Context(args), *args)


def run(function: Any, arguments: Arguments, varying: Sequence[Any]) -> Result:
    """The forward on copies: the operator may neither write into its arguments nor return them."""
    with paused():
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
    """How often it was written into; inference tensors do not count that."""
    return argument._version if isinstance(argument, torch.Tensor) and not argument.is_inference() else 0


def _result(output: Any, copies: Sequence[Any], originals: Sequence[Any], dirty: set[int]) -> Result:
    tensors: list[torch.Tensor] = []
    written: list[tuple[int, int]] = []
    shared: list[tuple[int, int]] = []

    def hole(tensor: torch.Tensor) -> Hole:
        argument = next((number for number, each in enumerate(copies) if _shares(tensor, each)), None)
        if argument is not None:
            returned = copies[argument] is tensor and id(tensor) in dirty
            (written if returned else shared).append((len(tensors), argument))
        aliased = argument is not None or any(_shares(tensor, each) for each in (*originals, *tensors))
        tensors.append(tensor.clone() if aliased else tensor)
        return Hole(len(tensors) - 1)

    returned = pytree.tree_map_only(torch.Tensor, hole, output)
    lost = dirty - {id(copies[argument]) for _, argument in written}
    return Result(returned, tensors, tuple(written), tuple(shared), bool(lost))


def _shares(one: Any, two: Any) -> bool:
    return isinstance(two, torch.Tensor) and (one is two or is_alias_of(one, two))


@contextlib.contextmanager
def _no_jit_tracing() -> Iterator[None]:
    """Inside, torch.jit.trace records nothing."""
    state = tracing_state()
    set_tracing_state(None)
    try:
        yield
    finally:
        set_tracing_state(state)


def probe(function: Function, arguments: Arguments, varying: Sequence[Any]) -> tuple[Result, Learned | None]:
    """The forward, run outside of the capture, to learn what it returns: on fake tensors, or, where those fail, on real ones."""
    mode = detect_fake_mode(list(varying))
    shapes = mode.shape_env if mode is not None else None
    ignoring = shapes.ignore_fresh_unbacked_symbols() if shapes is not None else contextlib.nullcontext()
    with disable_proxy_modes_tracing(), ignoring, _no_jit_tracing():
        try:
            return run(function, arguments, varying), None
        except Exception:  # the forward is the user's: whatever it raises on fake tensors, it may run on real ones
            if mode is None:
                raise
            seen: list[Result] = []

            def on_real(real: Sequence[Any]) -> list[torch.Tensor]:
                seen.append(run(function, arguments, real))
                return seen[-1].tensors

            learned = learn(on_real, varying)
            if learned is None:
                raise
            return seen[0], learned
