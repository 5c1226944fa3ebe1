"""While a model is captured, calls of the Functions that somebody has a symbolic for become operators of their own.

`torch.autograd.Function.apply` runs other code for as long as any capture runs; in threads that capture nothing it does what it
did. Its code is exchanged, not the method: people keep `MyFunction.apply` in variables, and Dynamo knows the method by identity.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch._dynamo import trace_rules
from torch._guards import detect_fake_mode
from torch.autograd.function import FunctionCtx
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils import _pytree as pytree

from onnxexp.warning import warn
from onnxexp_autograd.functions import marked
from onnxexp_autograd.learning import Learned, learn
from onnxexp_autograd.operators import Arguments, Form, Function, Hole, kept_op

__all__ = ["Decide", "applied", "keeping", "release"]

Decide = Callable[[Function], Any]
"""What is to be done with a Function; None: it is inlined."""

_local = threading.local()
_lock = threading.Lock()
_users = 0
_allowed: dict[int, int] = {}


class _Result(NamedTuple):
    returned: Any
    tensors: list[torch.Tensor]
    written: tuple[tuple[int, int], ...]


class _Context(FunctionCtx):
    """`ctx` of a forward that no backward follows."""

    needs_input_grad: tuple[bool, ...] = ()
    saved: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Nothing is computed forward."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.saved


def _stack() -> list[Decide]:
    found: list[Decide] = vars(_local).setdefault("deciding", [])
    return found


@contextlib.contextmanager
def keeping(decide: Decide) -> Iterator[None]:
    """Inside, in this thread, the Functions for which `decide` does not say None are kept whole."""
    wanted = [function for function in _subclasses(torch.autograd.Function) if decide(function) is not None]
    if not _stack():
        release()
    _enter(wanted)
    _stack().append(decide)
    try:
        yield
    finally:
        _stack().pop()
        _leave(wanted)


def release() -> None:
    """Hold the classes no longer that this thread's last capture kept."""
    vars(_local)["kept"] = []


def _subclasses(function: Any) -> Iterator[Any]:
    for each in function.__subclasses__():
        yield each
        yield from _subclasses(each)


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
    if not deciding or vars(_local).get("inside"):
        return original(*args, **kwargs)
    if torch._C._are_functorch_transforms_active():
        return _inlined(cls, args, kwargs) if _is_vmap() and cls.generate_vmap_rule else original(*args, **kwargs)
    tracing = torch._C._get_tracing_state() is not None
    decision = next((made for made in (decide(cls) for decide in reversed(deciding)) if made is not None), None)
    if decision is None:  # torch.jit.trace would make a node of it that nobody can look into
        return _inlined(cls, args, kwargs) if tracing else original(*args, **kwargs)
    args = _bound(cls, args, kwargs)
    if decision.how == "function":
        return marked(cls.__name__, functools.partial(_forward, cls), args)
    return _kept_call(cls, args, decision, original)


def _is_vmap() -> bool:
    functorch = torch._C._functorch
    return bool(functorch.peek_interpreter_stack().key() == functorch.TransformType.Vmap)


def _inlined(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The operators of the forward, without a boundary."""
    return _forward(function, *_bound(function, args, kwargs))


def _forward(function: Any, *args: Any) -> Any:
    return function.forward(*args) if _has_setup(function) else function.forward(_Context(), *args)


def _bound(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any]:
    """The arguments in order; a Function with setup_context takes keywords and defaults."""
    if not _has_setup(function):
        return args
    bound = inspect.signature(function.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _has_setup(function: Any) -> bool:
    return bool(function.setup_context is not torch.autograd.Function.setup_context)


def _kept_call(function: Any, args: Sequence[Any], decision: Any, original: Callable[..., Any]) -> Any:
    arguments, varying = Arguments.of(args)
    probed, learned = _probe(function, arguments, varying)
    if not probed.tensors or any(isinstance(leaf, torch.SymInt) for leaf in pytree.tree_leaves(probed.returned)):
        warn(f"{function.__name__} returns no tensor, or a size; it is inlined, whatever its symbolic says")
        return original(*args)
    reference = weakref.ref(function)

    def run(*given: Any) -> Any:
        if learned is not None and detect_fake_mode(list(given)) is not None:
            tensors = learned.results(given)
        else:
            tensors = _run(reference(), arguments, given).tensors
        return tensors[0] if len(tensors) == 1 else tuple(tensors)

    vars(_local)["kept"].append(function)  # a class made in a forward has no other owner, and is to be lowered
    record = kept_op(function, Form(arguments, probed.returned, probed.written, decision, learned), run)
    made = record.op(*varying)
    tensors = [made] if isinstance(made, torch.Tensor) else list(made)
    for number, argument in probed.written:
        varying[argument].copy_(tensors[number])
        tensors[number] = varying[argument]
    return pytree.tree_map_only(Hole, lambda hole: tensors[hole.number], probed.returned)


@contextlib.contextmanager
def _no_jit_tracing() -> Iterator[None]:
    """Inside, torch.jit.trace records nothing."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)
    try:
        yield
    finally:
        torch._C._set_tracing_state(state)


def _probe(function: Any, arguments: Arguments, varying: Sequence[Any]) -> tuple[_Result, Learned | None]:
    """The forward, run outside of the capture, to learn what it returns: on fake tensors, or, where those fail, on real ones."""
    mode = detect_fake_mode(list(varying))
    shapes = mode.shape_env if mode is not None else None
    ignoring = shapes.ignore_fresh_unbacked_symbols() if shapes is not None else contextlib.nullcontext()
    with disable_proxy_modes_tracing(), ignoring, _no_jit_tracing():
        try:
            return _run(function, arguments, varying), None
        except Exception:
            if mode is None:
                raise
            seen: list[_Result] = []

            def run(real: Sequence[Any]) -> list[torch.Tensor]:
                seen.append(_run(function, arguments, real))
                return seen[-1].tensors

            learned = learn(run, varying)
            if learned is None:
                raise
            return seen[0], learned


def _run(function: Any, arguments: Arguments, varying: Sequence[Any]) -> _Result:
    """The forward on copies: the operator may neither write into its arguments nor return them."""
    vars(_local)["inside"] = vars(_local).get("inside", 0) + 1
    try:
        copies = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in varying]
        args = arguments.fill(copies)
        context: Any = _Context()
        context.needs_input_grad = tuple(isinstance(each, torch.Tensor) and each.requires_grad for each in args)
        if _has_setup(function):
            output = function.forward(*args)
            function.setup_context(context, tuple(args), output)
        else:
            output = function.forward(context, *args)
        return _result(output, copies, vars(context).get("dirty_tensors") or ())
    finally:
        vars(_local)["inside"] -= 1


def _result(output: Any, copies: Sequence[Any], dirty: Sequence[Any]) -> _Result:
    tensors: list[torch.Tensor] = []
    written = []

    def hole(tensor: torch.Tensor) -> Hole:
        number = next((number for number, each in enumerate(copies) if each is tensor), None)
        if number is not None and any(each is tensor for each in dirty):
            written.append((len(tensors), number))
        aliased = number is not None or any(_shares(tensor, each) for each in (*copies, *tensors))
        tensors.append(tensor.clone() if aliased else tensor)
        return Hole(len(tensors) - 1)

    returned = pytree.tree_map_only(torch.Tensor, hole, output)
    return _Result(returned, tensors, tuple(written))


def _shares(one: Any, two: Any) -> bool:
    return isinstance(two, torch.Tensor) and torch._C._is_alias_of(one, two)
