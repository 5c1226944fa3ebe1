"""Capture calls of chosen autograd Functions as one torch operator each."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import warn
from onnxexp_autograd.function_ops import Arguments, CallForm, Function, FunctionOps, Placeholder
from onnxexp_autograd.interception import Diversion, allow_in_dynamo, current, divert
from onnxexp_autograd.local_functions import call_between_marks
from onnxexp_autograd.run_forward import ForwardResult, bind_arguments, inline, probe, run
from onnxexp_autograd.torch_internals import detect_fake_mode, free_unbacked_symbols, tracing_state

Decide = Callable[[Function], Any]
"""Return the decision about a Function; None inlines it."""


class Capture(Diversion):
    """A thread's capture.

    Attributes:
        deciders: The plugins' decision functions; the last one comes first.
        operators: The operators of the captured calls.
        messages: Warnings to emit after the capture, which silences warnings.
        probe_result: A probe's arguments and results; the operator's next run on these arguments returns the results.
        numbers: Numbers for the calls that become functions of the model.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deciders: list[Decide] = []
        self.operators = FunctionOps()
        self.messages: dict[str, None] = {}
        self.probe_result: tuple[Sequence[Any], Sequence[torch.Tensor]] = ((), ())
        self.numbers = itertools.count()

    def decision(self, function: Function) -> Any:
        """Return the first decision about a Function, or None without one."""
        decisions = (decide(function) for decide in reversed(self.deciders))
        return next((decision for decision in decisions if decision is not None), None)

    def should_divert(self, function: Any) -> bool:
        return tracing_state() is not None or self.decision(function) is not None

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = tuple(bind_arguments(function, args, kwargs))
        decision = self.decision(function)
        if decision is None:
            return self.inline_call(function, args)
        if decision.how == "function":
            return call_between_marks(function.__name__, next(self.numbers), functools.partial(inline, function), args)
        return _capture_call(self, function, args, decision)

    def inline_call(self, function: Any, args: Sequence[Any]) -> Any:
        """Inline a call of a Function.

        torch.jit.trace would record torch's own `apply` as an opaque node.
        """
        return self.original(function, *args) if tracing_state() is None else inline(function, *args)

    def call_under_vmap(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return inline(function, *bind_arguments(function, args, kwargs))


@contextlib.contextmanager
def capture_functions(decide: Decide, *, dynamo: bool) -> Iterator[Capture]:
    """Capture Functions whole in this thread if `decide` returns a decision for them.

    `dynamo` states whether Dynamo may run inside. Only Dynamo needs the list of Functions before they are called; the walk over
    all subclasses takes 10 % of a small model's export.
    """
    outer = current()
    if isinstance(outer, Capture):
        with _with_decisions(outer, decide, dynamo):
            yield outer
        return
    capture = Capture()
    with divert(capture), capture.operators.active(), _with_decisions(capture, decide, dynamo):
        yield capture
    for message in capture.messages:
        warn(message)


@contextlib.contextmanager
def _with_decisions(capture: Capture, decide: Decide, dynamo: bool) -> Iterator[None]:
    every = _subclasses(torch.autograd.Function) if dynamo else []
    capture.deciders.append(decide)
    try:
        with allow_in_dynamo([function for function in every if decide(function) is not None]):
            yield
    finally:
        capture.deciders.pop()


def _subclasses(function: Any) -> list[Any]:
    """Return all subclasses, direct and indirect."""
    found: list[Any] = function.__subclasses__()
    for each in found:  # the list grows during the loop
        found += each.__subclasses__()
    return found


def _capture_call(capture: Capture, function: Any, args: Sequence[Any], decision: Any) -> Any:
    arguments, varying = Arguments.of(args)
    probed, shapes = probe(function, arguments, varying)
    obstacle = _obstacle(probed)
    if obstacle:
        capture.messages[f"{function.__name__} {obstacle}; it is inlined and its symbolic is not used"] = None
        return capture.inline_call(function, args)

    def compute(*inputs: Any) -> Any:
        tensors = _probe_result(inputs)
        if tensors is None and shapes is not None and detect_fake_mode(list(inputs)) is not None:
            tensors = shapes.results(inputs)
        if tensors is None:
            tensors = run(function, arguments, inputs).tensors
        return tensors[0] if len(tensors) == 1 else tuple(tensors)

    form = CallForm(arguments, probed.returned, probed.written, probed.shared, decision, shapes)
    record = capture.operators.operator_for(function, form, compute)
    with _reuse_probe(capture, varying, probed.tensors if shapes is None else []):
        operator_results = record.op(*varying)
    tensors = [operator_results] if isinstance(operator_results, torch.Tensor) else list(operator_results)
    for number, argument in probed.written:
        varying[argument].copy_(tensors[number])
        tensors[number] = varying[argument]
    return pytree.tree_map_only(Placeholder, lambda placeholder: tensors[placeholder.number], probed.returned)


def _obstacle(probed: ForwardResult) -> str:
    """Return why no operator can represent the call, or "" if one can."""
    if not probed.tensors or any(isinstance(leaf, torch.SymInt) for leaf in pytree.tree_leaves(probed.returned)):
        return "returns no tensor, or a size"
    return "writes into an argument that it does not return" if probed.lost else ""


@contextlib.contextmanager
def _reuse_probe(capture: Capture, varying: Sequence[Any], tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Make the operator's first run on these arguments return the probe's results.

    A forward with side effects then runs once, as in eager mode. If the results have unbacked symbols, the operator runs the
    forward again, since each call has its own symbols.
    """
    known = free_unbacked_symbols(list(varying)) >= free_unbacked_symbols(list(tensors))
    capture.probe_result = (varying, tensors) if known else ((), ())
    try:
        yield
    finally:
        capture.probe_result = ((), ())


def _probe_result(inputs: Sequence[Any]) -> list[torch.Tensor] | None:
    capture = current()
    varying, tensors = capture.probe_result if isinstance(capture, Capture) else ((), ())
    same = all(one is two for one, two in zip(inputs, varying, strict=False) if isinstance(two, torch.Tensor))
    if not isinstance(capture, Capture) or not tensors or len(inputs) != len(varying) or not same:
        return None
    capture.probe_result = ((), ())
    return list(tensors)
