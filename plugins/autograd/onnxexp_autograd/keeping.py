"""Keep calls of chosen autograd Functions whole while a model is captured: each becomes a torch operator of its own."""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import warn
from onnxexp_autograd.forwards import Result, bound, inlined, probe, run
from onnxexp_autograd.functions import marked
from onnxexp_autograd.interception import Diversion, allowed_in_dynamo, current, diverted
from onnxexp_autograd.operators import Arguments, Form, Function, Hole, kept_op
from onnxexp_autograd.torch_internals import detect_fake_mode, free_unbacked_symbols, tracing_state

__all__ = ["Capture", "Decide", "keeping"]

Decide = Callable[[Function], Any]
"""The decision about a Function; None inlines it."""


class Capture(Diversion):
    """A thread's capture.

    Attributes:
        deciding: The decisions of the plugins that take part, the last one first.
        functions: The classes kept so far. A class made in a forward has no other owner until it is lowered.
        messages: Warnings for the end of the capture, which silences those in between.
        answer: The arguments and the results of the probe that the operator's next run returns.
        numbers: Numbers for the calls that become functions of the model.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deciding: list[Decide] = []
        self.functions: list[Function] = []
        self.messages: dict[str, None] = {}
        self.answer: tuple[Sequence[Any], Sequence[torch.Tensor]] = ((), ())
        self.numbers = itertools.count()

    def decision(self, function: Function) -> Any:
        return next((made for made in (decide(function) for decide in reversed(self.deciding)) if made is not None), None)

    def wants(self, function: Any) -> bool:
        return tracing_state() is not None or self.decision(function) is not None

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = tuple(bound(function, args, kwargs))
        decision = self.decision(function)
        if decision is None:
            return self.not_kept(function, args)
        if decision.how == "function":
            return marked(function.__name__, next(self.numbers), functools.partial(inlined, function), args)
        return _kept_call(self, function, args, decision)

    def not_kept(self, function: Any, args: Sequence[Any]) -> Any:
        """The call's operators; torch.jit.trace would make an opaque node of torch's own `apply`."""
        return self.original(function, *args) if tracing_state() is None else inlined(function, *args)

    def call_under_vmap(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return inlined(function, *bound(function, args, kwargs))


@contextlib.contextmanager
def keeping(decide: Decide, *, dynamo: bool) -> Iterator[Capture]:
    """Keep the Functions whole for which `decide` does not return None, in this thread.

    `dynamo` is whether Dynamo may run inside. Only Dynamo needs the list of Functions before they are called; the walk over all
    Functions takes a tenth of a small model's export.
    """
    outer = current()
    if isinstance(outer, Capture):
        with _deciding(outer, decide, dynamo):
            yield outer
        return
    capture = Capture()
    with diverted(capture), _deciding(capture, decide, dynamo):
        yield capture
    for message in capture.messages:
        warn(message)


@contextlib.contextmanager
def _deciding(capture: Capture, decide: Decide, dynamo: bool) -> Iterator[None]:
    every = _subclasses(torch.autograd.Function) if dynamo else []
    capture.deciding.append(decide)
    try:
        with allowed_in_dynamo([function for function in every if decide(function) is not None]):
            yield
    finally:
        capture.deciding.pop()


def _subclasses(function: Any) -> list[Any]:
    """All subclasses, direct and indirect."""
    found: list[Any] = function.__subclasses__()
    for each in found:  # it grows meanwhile
        found += each.__subclasses__()
    return found


def _kept_call(capture: Capture, function: Any, args: Sequence[Any], decision: Any) -> Any:
    arguments, varying = Arguments.of(args)
    probed, learned = probe(function, arguments, varying)
    obstacle = _obstacle(probed)
    if obstacle:
        capture.messages[f"{function.__name__} {obstacle}; it is inlined, whatever its symbolic says"] = None
        return capture.not_kept(function, args)
    reference = weakref.ref(function)

    def compute(*given: Any) -> Any:
        tensors = _answer(given)
        if tensors is None and learned is not None and detect_fake_mode(list(given)) is not None:
            tensors = learned.results(given)
        if tensors is None:
            tensors = run(reference(), arguments, given).tensors
        return tensors[0] if len(tensors) == 1 else tuple(tensors)

    capture.functions.append(function)
    record = kept_op(function, Form(arguments, probed.returned, probed.written, probed.shared, decision, learned), compute)
    with _answering(capture, varying, probed.tensors if learned is None else []):
        made = record.op(*varying)
    tensors = [made] if isinstance(made, torch.Tensor) else list(made)
    for number, argument in probed.written:
        varying[argument].copy_(tensors[number])
        tensors[number] = varying[argument]
    return pytree.tree_map_only(Hole, lambda hole: tensors[hole.number], probed.returned)


def _obstacle(probed: Result) -> str:
    """Why no operator can stand for the call."""
    if not probed.tensors or any(isinstance(leaf, torch.SymInt) for leaf in pytree.tree_leaves(probed.returned)):
        return "returns no tensor, or a size"
    return "writes into an argument that it does not return" if probed.lost else ""


@contextlib.contextmanager
def _answering(capture: Capture, varying: Sequence[Any], tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Return the probe's results from the operator's first run on these very arguments.

    A forward that keeps state then runs once, as it does outside of a capture. Where the results have unbacked symbols, the
    operator runs the forward again, since each call has symbols of its own.
    """
    known = free_unbacked_symbols(list(varying)) >= free_unbacked_symbols(list(tensors))
    capture.answer = (varying, tensors) if known else ((), ())
    try:
        yield
    finally:
        capture.answer = ((), ())


def _answer(given: Sequence[Any]) -> list[torch.Tensor] | None:
    capture = current()
    varying, tensors = capture.answer if isinstance(capture, Capture) else ((), ())
    same = all(one is two for one, two in zip(given, varying, strict=False) if isinstance(two, torch.Tensor))
    if not isinstance(capture, Capture) or not tensors or len(given) != len(varying) or not same:
        return None
    capture.answer = ((), ())
    return list(tensors)
