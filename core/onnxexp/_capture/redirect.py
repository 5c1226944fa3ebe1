"""Redirect calls of torch's functions while torch.export runs a model's forward.

A mode for functions belongs to its thread, and other threads see torch as it is. Dynamo, which captures in strict mode and the
branches of ``torch.cond``, gets replaced attributes instead: it traces a mode as part of the model.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import Any, TypeAlias

import torch
from torch._higher_order_ops import utils
from torch.overrides import TorchFunctionMode

from onnxexp._capture.torch_state import is_exporting, replace_attributes

Replacement: TypeAlias = Callable[..., Any]
"""A function that gets torch's function first, then the arguments of the call."""
Rows: TypeAlias = Iterable[tuple[Any, str, Replacement]]
"""The replacements of torch's functions, as (owner, attribute, replacement)."""

_CHECKS = dict.fromkeys(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"), lambda *tensors: False)
"""torch's tests for a mode or a tensor's class that takes a call, answered for a call that has neither."""


def _in_captures(original: Callable[..., Any], replacement: Replacement) -> Callable[..., Any]:
    """Call `replacement` with `original` first, in captures of torch.export."""

    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        inside = torch.compiler.is_exporting() and is_exporting()
        return replacement(original, *args, **options) if inside else original(*args, **options)

    return call


class Redirect(TorchFunctionMode):
    """Call replacements of torch's functions.

    A mode is off while it handles a call. To see the calls that torch's own Python functions make, such as that of attention in
    ``multi_head_attention_forward``, it runs a copy of those functions that does not look for modes, with the mode on.
    """

    def __init__(self, table: Mapping[Any, Replacement], names: frozenset[str]) -> None:
        super().__init__()
        self._table = table
        self._traced = {function: _in_captures(function, instead) for function, instead in table.items()}
        self._names = names
        self._copies: dict[FunctionType, FunctionType] = {}
        self._globals: dict[int, dict[str, Any]] = {}
        self._direct = False

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        options = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # it traces this function, in a branch of torch.cond
            return self._traced.get(func, func)(*args, **options)
        if self._direct:
            self._direct = False
            return func(*args, **options)
        instead, classes = self._table.get(func), _classes(types)
        copied = isinstance(func, FunctionType) and not classes and _calls_one_of(func, self._names)
        if instead is None and not copied and not classes:
            return func(*args, **options)
        run = functools.partial(self._call_classes, classes) if classes else self._call
        original = self._without_checks(func) if copied else functools.partial(run, func)
        with self:
            return original(*args, **options) if instead is None else instead(original, *args, **options)

    def _call(self, func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call torch's function, also one that has a replacement."""
        self._direct = True
        try:
            return func(*args, **options)
        finally:
            self._direct = False

    def _call_classes(self, classes: list[Any], func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function as the classes of its tensors define it, which may call others."""
        for each in classes:
            result = each.__torch_function__(func, tuple(classes), args, options)
            if result is not NotImplemented:
                return result
        return self._call(func, *args, **options)  # torch's error

    def _without_checks(self, func: FunctionType) -> FunctionType:
        """Copy a function of torch that looks for modes into one that does not."""
        if func not in self._copies:
            names = self._globals.setdefault(id(func.__globals__), {**func.__globals__, **_CHECKS})
            inner = (cell.cell_contents for cell in func.__closure__ or ())
            closure = tuple(CellType(self._without_checks(each) if isinstance(each, FunctionType) else each) for each in inner)
            copy = FunctionType(func.__code__, names, func.__name__, func.__defaults__, closure)
            copy.__kwdefaults__ = func.__kwdefaults__
            self._copies[func] = copy
        return self._copies[func]


def _classes(types: Any) -> list[Any]:
    """Return the classes of tensors that define torch's functions themselves.

    torch also names other classes: that of a method's tensor, always.
    """
    if not types or not torch._C._is_torch_function_enabled():
        return []
    own = torch._C._disabled_torch_function_impl
    return [each for each in types if each is not torch.Tensor and each.__torch_function__ is not own]


@functools.lru_cache(maxsize=4096)
def _calls_one_of(func: FunctionType, names: frozenset[str]) -> bool:
    """Return whether a Python function calls a function of these names, by its code."""
    seen: set[FunctionType] = set()
    left = [func]
    while left:
        each = left.pop()
        if each in seen:
            continue
        seen.add(each)
        used = {name for code in _codes(each.__code__) for name in code.co_names}
        if used & names:
            return True
        within = [cell.cell_contents for cell in each.__closure__ or ()]
        left += [one for one in (*map(each.__globals__.get, used), *within) if isinstance(one, FunctionType)]
    return False


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Iterate over the code of a function and of those defined in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


@contextlib.contextmanager
def redirected(
    rows: Rows, model: torch.nn.Module | None, compositions: Mapping[Any, Callable[..., Any]] = MappingProxyType({})
) -> Iterator[None]:
    """Redirect torch's functions while torch.export captures a model.

    Only calls in this thread are redirected. For torch.export's strict mode, the attributes are replaced, and other threads call
    wrappers that change nothing: Dynamo traces a mode for functions as part of the model.

    Args:
        rows: What is replaced: the owner, such as `torch.Tensor`, the name, and a function that gets torch's function first, then
            the arguments of the call. A name that the owner lacks is skipped.
        model: The model that torch.export gets. None for its strict mode, and for functions that no mode sees, such as torch's
            own helpers.
        compositions: Functions by torch's function, in the model's forward only. Each gets torch's function, the arguments as a
            tuple, and those by keyword as a dictionary. A replacement of the same function gets it as torch's function.
    """
    # each by its name; torch 2.11 to 2.15 lack some
    found = [(owner, name, getattr(owner, name), instead) for owner, name, instead in rows if hasattr(owner, name)]
    patches = [(owner, name, _in_captures(original, instead)) for owner, name, original, instead in found]
    if model is None:
        with replace_attributes(patches):
            yield
        return
    table: dict[Any, Replacement] = {original: instead for _, _, original, instead in found}
    names = frozenset(function.__name__ for function in table)
    for function, composition in compositions.items():
        table[function] = functools.partial(_composed, table.get(function, _call), composition)
    in_branches = (utils, "_set_compilation_env", _with_attributes(utils._set_compilation_env, patches))
    with _in_call(model, Redirect(table, names)), replace_attributes([in_branches]):
        yield


def _in_call(model: torch.nn.Module, mode: TorchFunctionMode) -> contextlib.AbstractContextManager[None]:
    """Call a model and its hooks in a mode, without effect on other threads.

    Of the calls that a mode around all of torch.export would see, torch.export itself makes four of five.
    """
    entered: list[None] = []

    def within(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if entered or not is_exporting():
                return function(*args, **options)
            entered.append(None)
            try:
                with mode:
                    return function(*args, **options)
            finally:
                entered.clear()

        return call

    # torch.nn.Module.__call__ calls `_call_impl`, which calls the hooks and `forward`
    return replace_attributes([(model, name, within(getattr(model, name))) for name in ("forward", "_call_impl")])


def _call(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return original(*args, **options)


def _composed(
    instead: Replacement, composition: Callable[..., Any], original: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    """Call a replacement that gets a composition in place of torch's function."""
    return instead(lambda *args, **options: composition(original, args, options), *args, **options)


def _with_attributes(environment: Callable[[], Any], patches: Rows) -> Callable[[], Any]:
    """Return the settings for branches under Dynamo, with replaced attributes."""

    @contextlib.contextmanager
    def settings() -> Iterator[None]:
        with replace_attributes(patches if is_exporting() else ()), environment():  # not in another thread
            yield

    return settings
