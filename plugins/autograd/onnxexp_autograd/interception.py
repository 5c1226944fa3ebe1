"""Divert calls of torch.autograd.Function.apply in chosen threads.

The calls include `apply` methods that were bound before the capture.

A bound `apply` runs torch's own code, in C since torch 2.14, so the method itself cannot be replaced. From torch 2.13 on, that
code reads three things:

1. the class's `setup_context`, to see whether the class overrides it;
2. if it does, `inspect.signature(forward)`, to bind the defaults;
3. if a functorch transform is active, `custom_function_call`, which then gets the class and its arguments.

While a thread diverts calls, step 1 finds a descriptor of the metaclass, step 2 pushes a functorch level, and step 3 pops that
level and calls the handler. `works` tests this.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch.autograd import function as torch_function

from onnxexp_autograd.torch_internals import (
    FunctionMeta,
    custom_function_call,
    dynamo_allowed_ids,
    functorch_active,
    pop_functorch_level,
    push_functorch_level,
    vmap_active,
)

_LOCK = threading.Lock()
_ATTRIBUTE = "setup_context"


class Diversion(abc.ABC):
    """The calls of `apply` that one thread diverts."""

    def __init__(self) -> None:
        self.pause_depth = 0
        self.undiverted: Any = None
        """The class whose current call is not diverted, regardless of `should_divert`."""
        self.armed = False
        """Whether torch has read the replaced `setup_context` and binds the arguments next."""
        self.pushed = False
        """Whether a functorch level has to be popped."""

    @abc.abstractmethod
    def should_divert(self, function: Any) -> bool:
        """Return whether to divert a call of this class."""

    @abc.abstractmethod
    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a diverted call."""

    @abc.abstractmethod
    def call_under_vmap(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call under vmap."""

    def original(self, function: Any, *args: Any) -> Any:
        """Call torch's own `apply`."""
        before, self.undiverted = self.undiverted, function
        try:
            return torch.autograd.Function.__dict__["apply"].__get__(None, function)(*args)
        finally:
            self.undiverted = before

    def replaces_setup(self, function: Any) -> bool:
        """Return whether `setup_context` must be replaced for the current call of a class."""
        if self.pause_depth or function is self.undiverted or not issubclass(function, torch.autograd.Function):
            return False
        return vmap_active() if functorch_active() else self.should_divert(function)


class _SetupContext:
    """A descriptor on the metaclass that replaces every `setup_context`.

    The descriptor is installed while any thread diverts calls.
    """

    def __init__(self) -> None:
        self.diversions: dict[int, Diversion] = {}
        self.allowed: Counter[int] = Counter()

    def __get__(self, function: Any, metaclass: Any = None) -> Any:
        own = class_attribute(function, _ATTRIBUTE)
        diversion = self.diversions.get(threading.get_ident())
        if diversion is None or not diversion.replaces_setup(function):
            return own
        diversion.armed = True
        return functools.partial(own)  # differs from the default, so torch treats it as an override

    def __set__(self, function: Any, value: Any) -> None:
        raise AttributeError(f"{_ATTRIBUTE} of {function.__name__} cannot be replaced while a model is captured")

    def install(self) -> None:
        setattr(FunctionMeta, _ATTRIBUTE, self)
        vars(torch_function).update(inspect=_Inspect(self), custom_function_call=functools.partial(_custom_function_call, self))

    def uninstall(self) -> None:
        delattr(FunctionMeta, _ATTRIBUTE)
        vars(torch_function).update(inspect=inspect, custom_function_call=custom_function_call)


class _Inspect:
    """A replacement for `inspect` in torch.autograd.function.

    Its `signature` pushes a functorch level when a diverted call binds its arguments.
    """

    def __init__(self, installed: _SetupContext) -> None:
        self._installed = installed

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)  # torch's module may use any name of `inspect`

    def signature(self, function: Callable[..., Any]) -> inspect.Signature:
        diversion = self._installed.diversions.get(threading.get_ident())
        if diversion is None or not diversion.armed:
            return inspect.signature(function)
        diversion.armed = False
        if not functorch_active():
            push_functorch_level()
            diversion.pushed = True
        return inspect.signature(_any_arguments)


def _any_arguments(*args: Any, **kwargs: Any) -> None:
    """Provide a signature that accepts every call."""


def _custom_function_call(installed: _SetupContext, function: Any, *args: Any, **kwargs: Any) -> Any:
    diversion = installed.diversions.get(threading.get_ident())
    if diversion is not None and diversion.pushed:
        pop_functorch_level()
        diversion.pushed = False
        return diversion.call(function, args, kwargs)
    if diversion is not None and not diversion.pause_depth and vmap_active():
        return diversion.call_under_vmap(function, args, kwargs)
    return custom_function_call(function, *args, **kwargs)


def class_attribute(function: Any, name: str) -> Any:
    """Return an attribute of a class, bypassing the descriptors of its metaclass."""
    found = next(vars(base)[name] for base in function.__mro__ if name in vars(base))
    return found.__get__(None, function) if hasattr(found, "__get__") else found  # a class attribute may be any callable


def _installed() -> _SetupContext | None:
    found = vars(FunctionMeta).get(_ATTRIBUTE)
    return found if isinstance(found, _SetupContext) else None


def current() -> Diversion | None:
    """Return this thread's diversion, or None without one."""
    installed = _installed()
    return None if installed is None else installed.diversions.get(threading.get_ident())


@contextlib.contextmanager
def divert(diversion: Diversion) -> Iterator[None]:
    """Divert this thread's calls of `apply`."""
    with _LOCK:
        installed = _installed()
        if installed is None:
            installed = _SetupContext()
            installed.install()
        installed.diversions[threading.get_ident()] = diversion
    try:
        yield
    finally:
        with _LOCK:
            del installed.diversions[threading.get_ident()]
            if not installed.diversions:
                installed.uninstall()


@contextlib.contextmanager
def allow_in_dynamo(functions: Collection[Any]) -> Iterator[None]:
    """Let Dynamo call these classes directly, so that `apply` is reached.

    This context must be entered inside `divert`.
    """
    installed = _installed()
    assert installed is not None
    with _LOCK:
        for function in functions:
            installed.allowed[id(function)] += 1
            dynamo_allowed_ids().add(id(function))
    try:
        yield
    finally:
        with _LOCK:
            for function in functions:
                installed.allowed[id(function)] -= 1
                if not installed.allowed[id(function)]:
                    dynamo_allowed_ids().remove(id(function))


@contextlib.contextmanager
def pause_diversion() -> Iterator[None]:
    """Suspend the diversion of this thread."""
    diversion = current()
    if diversion is None:
        yield
        return
    diversion.pause_depth += 1
    try:
        yield
    finally:
        diversion.pause_depth -= 1


class _Probe(Diversion):
    """A diversion of every call, for the test in `works`."""

    def should_divert(self, function: Any) -> bool:
        return True

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function, args, kwargs

    call_under_vmap = call


def works() -> bool:
    """Return whether this torch reads the replaced names.

    The test diverts calls of two classes through a bound `apply`.
    """

    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, factor: int = 1) -> torch.Tensor:
            return x * factor

    class WithSetup(torch.autograd.Function):
        @staticmethod
        def forward(x: torch.Tensor, factor: int = 1) -> torch.Tensor:
            return x * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            """Save nothing."""

    classes = (Plain, WithSetup)
    bound: list[Any] = [each.apply for each in classes]
    x = torch.ones(1)
    probe = _Probe()
    try:
        with divert(probe):
            diverts = [apply(x, factor=2) for apply in bound] == [(each, (x,), {"factor": 2}) for each in classes]
            return diverts and all(torch.equal(probe.original(each, x, 2), x * 2) for each in classes)
    finally:
        if probe.pushed:
            pop_functorch_level()
