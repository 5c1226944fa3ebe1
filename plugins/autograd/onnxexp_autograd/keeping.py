"""While a model is captured, calls of the Functions that somebody has a symbolic for become operators of their own.

`torch.autograd.Function.apply` runs other code for as long as any capture runs; in threads that capture nothing it does what it
did. Its code is exchanged, not the method: people keep `MyFunction.apply` in variables, and Dynamo knows the method by identity.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._dynamo import trace_rules
from torch._guards import detect_fake_mode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from onnxexp import warn
from onnxexp_autograd.forwards import Result, bound, inlined, inside_forward, probe, run
from onnxexp_autograd.functions import marked
from onnxexp_autograd.operators import Arguments, Form, Function, Hole, kept_op

__all__ = ["Decide", "applied", "keeping", "release"]

Decide = Callable[[Function], Any]
"""What is to be done with a Function; None: it is inlined."""

_local = threading.local()
_lock = threading.Lock()
_users = 0
_allowed: dict[int, int] = {}


class keeping:
    """Inside, in this thread, the Functions for which `decide` does not say None are kept whole.

    `dynamo` says whether Dynamo may run inside. Only it needs to know the Functions before they are called, and to go through all
    that there are takes a tenth of a small model's export."""

    def __init__(self, decide: Decide, *, dynamo: bool) -> None:
        every = _subclasses(torch.autograd.Function) if dynamo else []
        self._decide, self._wanted = decide, [function for function in every if decide(function) is not None]

    def __enter__(self) -> None:
        self._deciding = _stack()
        if not self._deciding:
            release()
            _local.told = {}
        _enter(self._wanted)
        self._deciding.append(self._decide)

    def __exit__(self, error: object, *_: object) -> None:
        self._deciding.pop()
        _leave(self._wanted)
        if not self._deciding and error is None:
            for message in _local.told:  # a capture silences warnings, torch's remarks about itself
                warn(message)


def _stack() -> list[Decide]:
    found: list[Decide] = vars(_local).setdefault("deciding", [])
    return found


def release() -> None:
    """Hold the classes no longer that this thread's last capture kept."""
    _local.kept = []


def _subclasses(function: Any) -> list[Any]:
    """All of them, without a generator for each: torch has some two hundred, and every export goes through them."""
    found: list[Any] = function.__subclasses__()
    for each in found:  # it grows meanwhile
        found += each.__subclasses__()
    return found


def _enter(wanted: Sequence[Function]) -> None:
    """Dynamo calls the classes among `wanted` as they are, so that strict capture and the branches of cond come to `apply`."""
    global _users  # noqa: PLW0603 - how many captures use what the process has once
    with _lock:
        _users += 1
        _METHOD.__code__ = _REPLACEMENT
        for function in wanted:
            _allowed[id(function)] = _allowed.get(id(function), 0) + 1
            trace_rules._allowed_callable_ids.add(id(function))


def _leave(wanted: Sequence[Function]) -> None:
    global _users  # noqa: PLW0603 - as above
    with _lock:
        _users -= 1
        if not _users:
            _METHOD.__code__ = _CODE
        for function in wanted:
            _allowed[id(function)] -= 1
            if not _allowed[id(function)]:
                del _allowed[id(function)]
                trace_rules._allowed_callable_ids.remove(id(function))


def _replacement() -> types.CodeType:
    """Code that can stand in for that of `apply`, which refers to its class."""
    __class__ = None

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        from onnxexp_autograd.keeping import applied  # runs with the globals of torch's module

        _ = __class__
        return applied(cls, *args, **kwargs)

    return apply.__code__


_METHOD: Any = torch.autograd.Function.__dict__["apply"].__func__
_CODE = _METHOD.__code__
_REPLACEMENT = _replacement()
_ORIGINAL = types.FunctionType(_CODE, _METHOD.__globals__, "apply", _METHOD.__defaults__, _METHOD.__closure__)


def applied(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """``cls.apply(*args, **kwargs)`` while a model is captured."""
    original = functools.partial(_ORIGINAL, cls)
    deciding = _stack()
    if not deciding or inside_forward():
        return original(*args, **kwargs)
    if torch._C._are_functorch_transforms_active():
        return inlined(cls, *bound(cls, args, kwargs)) if _is_vmap() else original(*args, **kwargs)
    tracing = torch._C._get_tracing_state() is not None
    decision = next((made for made in (decide(cls) for decide in reversed(deciding)) if made is not None), None)
    if decision is None:  # torch.jit.trace would make a node of it that nobody can look into
        return inlined(cls, *bound(cls, args, kwargs)) if tracing else original(*args, **kwargs)
    args = tuple(bound(cls, args, kwargs))
    if decision.how == "function":
        return marked(cls.__name__, functools.partial(inlined, cls), args)
    return _kept_call(cls, args, decision, original)


def _is_vmap() -> bool:
    functorch = torch._C._functorch
    return bool(functorch.peek_interpreter_stack().key() == functorch.TransformType.Vmap)


def _kept_call(function: Any, args: Sequence[Any], decision: Any, original: Callable[..., Any]) -> Any:
    arguments, varying = Arguments.of(args)
    probed, learned = probe(function, arguments, varying)
    obstacle = _obstacle(probed)
    if obstacle:
        vars(_local)["told"][f"{function.__name__} {obstacle}; it is inlined, whatever its symbolic says"] = None
        return original(*args) if torch._C._get_tracing_state() is None else inlined(function, *args)
    reference = weakref.ref(function)

    def compute(*given: Any) -> Any:
        tensors = _answer(given)
        if tensors is None and learned is not None and detect_fake_mode(list(given)) is not None:
            tensors = learned.results(given)
        if tensors is None:
            tensors = run(reference(), arguments, given).tensors
        return tensors[0] if len(tensors) == 1 else tuple(tensors)

    vars(_local)["kept"].append(function)  # a class made in a forward has no other owner, and is to be lowered
    record = kept_op(function, Form(arguments, probed.returned, probed.written, probed.shared, decision, learned), compute)
    with _answering(varying, probed.tensors if learned is None else []):
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
def _answering(varying: Sequence[Any], tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Inside, the first run of the operator on these very arguments gives what the probe gave: a forward that keeps state is run
    once, as it is outside of a capture. Sizes that the data decide are new ones for each call; there it is run again."""
    known = free_unbacked_symbols(list(varying)) >= free_unbacked_symbols(list(tensors))
    _local.answer = (varying, tensors) if tensors and known else None
    try:
        yield
    finally:
        _local.answer = None


def _answer(given: Sequence[Any]) -> list[torch.Tensor] | None:
    varying, tensors = vars(_local).get("answer") or ((), ())
    same = all(one is two for one, two in zip(given, varying, strict=False) if isinstance(two, torch.Tensor))
    if not tensors or len(given) != len(varying) or not same:
        return None
    _local.answer = None
    return list(tensors)
