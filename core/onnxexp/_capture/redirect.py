"""Redirect calls of torch's functions while a capture runs a model's forward.

A mode for functions belongs to its thread, and other threads see torch as it is. Dynamo, which captures in strict mode and the
branches of ``torch.cond``, gets replaced attributes instead: it traces a mode as part of the model, takes symbolic sizes for
integers there, and no longer knows ``x[i : i + 1]`` by a tensor ``i``.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import Any, TypeAlias

import torch
from torch._higher_order_ops import utils
from torch.overrides import TorchFunctionMode

from onnxexp._capture.assigned_data import AssignedData
from onnxexp._capture.torch_state import is_exporting, replace_attributes, set_data
from onnxexp._errors import CaptureError

Replacement: TypeAlias = Callable[..., Any]
"""A function that gets torch's function first, then the arguments of the call."""
Rows: TypeAlias = Iterable[tuple[Any, str, Replacement]]
"""The replacements of torch's functions, as (owner, attribute, replacement)."""

_CHECKS = dict.fromkeys(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"), lambda *tensors: False)
"""torch's tests for a mode or a tensor's class that takes a call, answered for a call that has neither."""
_SLOW_CALL = 1.0
"""Seconds from which on a call counts as slow; few take a tenth of it in a capture of any size."""
_SLOW_CALLS = 10.0
"""Seconds of slow calls after which `TimedRedirect` gives up."""


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

    Args:
        table: The replacements by torch's function.
        names: The names of functions: one of torch's Python functions is copied if it calls such a function. None copies all,
            since the operators of Python call methods of tensors that no code names.
    """

    def __init__(self, table: Mapping[Any, Replacement], names: frozenset[str] | None) -> None:
        super().__init__()
        self._table = table
        # what Dynamo calls in the branches of torch.cond; a trace has none
        self._traced = {function: _in_captures(function, instead) for function, instead in table.items()} if names else {}
        self._names = names
        self._copies: dict[FunctionType, FunctionType] = {}
        self._globals: dict[int, dict[str, Any]] = {}
        self._direct: Any = None
        self._running: list[FunctionType] = []
        self.data = AssignedData()

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        options = kwargs or {}
        if torch.compiler.is_dynamo_compiling():  # it traces this function, in a branch of torch.cond
            return self._traced.get(func, func)(*args, **options)
        if func is set_data and isinstance(args[0], torch.nn.Parameter):
            return self.data.assign(*args)
        if self.data:
            args, options = self.data.replaced((args, options))
        if func == self._direct:
            self._direct = None
            return func(*args, **options)
        instead, classes = self._table.get(func), _classes(types)
        # one that runs already calls itself, or a function in C++ that gives this one's name
        copied = isinstance(func, FunctionType) and not classes and func not in self._running and self._is_copied(func)
        if instead is None and not copied and not classes:
            return func(*args, **options)
        run = functools.partial(self._call_classes, classes) if classes else self._call
        original = functools.partial(self._run_copy, func) if copied else functools.partial(run, func)
        with self:
            return original(*args, **options) if instead is None else instead(original, *args, **options)

    def _run_copy(self, func: FunctionType, *args: Any, **options: Any) -> Any:
        """Run one of torch's Python functions without its tests for modes."""
        self._running.append(func)
        try:
            return self._without_checks(func)(*args, **options)
        finally:
            self._running.pop()

    def _is_copied(self, func: FunctionType) -> bool:
        return _looks_for_modes(func) if self._names is None else _calls_one_of(func, self._names)

    def _call(self, func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call torch's function, also one that has a replacement.

        torch may call others before, such as `torch.Tensor.__index__` of an argument.
        """
        before, self._direct = self._direct, func
        try:
            return func(*args, **options)
        finally:
            self._direct = before

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
            if id(func.__globals__) not in self._globals:
                self._globals[id(func.__globals__)] = {**func.__globals__, **_CHECKS}
            names = self._globals[id(func.__globals__)]
            closure = tuple(CellType() for _ in func.__closure__ or ())
            copy = FunctionType(func.__code__, names, func.__name__, func.__defaults__, closure)
            copy.__kwdefaults__ = func.__kwdefaults__
            self._copies[func] = copy  # before the cells: a function may refer to itself
            for cell, original in zip(closure, func.__closure__ or (), strict=True):
                inner = original.cell_contents
                cell.cell_contents = self._without_checks(inner) if isinstance(inner, FunctionType) else inner
        return self._copies[func]


class SlowSizes(RuntimeError):
    """A capture takes too long, since its sizes become expressions that grow."""


class TimedRedirect(Redirect):
    """Redirect calls, and give up after slow ones.

    torch simplifies the sizes of each result. Where a model rounds sizes up and divides them again and again, as DaViT and Hiera
    do for their windows, the expressions grow, and each such call takes several times as long as the one before.
    """

    _slow = 0.0

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return super().__torch_function__(func, types, args, kwargs)
        begin, before = time.perf_counter(), self._slow
        result = super().__torch_function__(func, types, args, kwargs)
        spent = time.perf_counter() - begin - (self._slow - before)  # without slow calls inside of it
        if spent > _SLOW_CALL:
            self._slow += spent
            if self._slow > _SLOW_CALLS:
                raise SlowSizes(
                    f"{getattr(func, '__name__', func)} took {spent:.0f} s, since sizes of its tensors are expressions that "
                    "torch takes longer and longer to simplify; to fix this, use capture='trace', or wait with capture='export'"
                )
        return result


def _classes(types: Any) -> list[Any]:
    """Return the classes of tensors that define torch's functions themselves.

    torch also names other classes: that of a method's tensor, always.
    """
    if not types or not torch._C._is_torch_function_enabled():
        return []
    own = torch._C._disabled_torch_function_impl
    return [each for each in types if each is not torch.Tensor and each.__torch_function__ is not own]


@functools.lru_cache(maxsize=4096)
def _looks_for_modes(func: FunctionType) -> bool:
    """Return whether a copy of a Python function can do without its tests for modes.

    It can where the function, or one that it wraps, reads them as globals: `_CHECKS`.
    """
    wrapped = [each.cell_contents for each in func.__closure__ or ()]
    return any(
        name in _CHECKS and name in each.__globals__
        for each in (func, *(one for one in wrapped if isinstance(one, FunctionType)))
        for name in each.__code__.co_names
    )


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


def redirected(
    rows: Rows,
    model: torch.nn.Module | None = None,
    *,
    attributes: bool = False,
    compositions: Mapping[Any, Callable[..., Any]] = MappingProxyType({}),
) -> contextlib.AbstractContextManager[Any]:
    """Redirect calls of torch's functions in this thread.

    Without `model`, all calls inside the `with` are redirected: for a frontend that runs a forward itself. The object of the
    `with` has `data.replaced(result)`, which puts what the forward assigned to ``.data`` of a parameter into its result.

    Args:
        rows: What is replaced: the owner, such as `torch.Tensor`, the name, and a function that gets torch's function first, then
            the arguments of the call. A name that the owner lacks is skipped. The later of two replacements of one function gets
            the earlier in place of torch's function.
        model: The model that torch.export gets. Calls in its forward and its hooks are redirected, in captures only.
        attributes: Replace attributes, in captures of torch.export. For its strict mode, since Dynamo traces a mode for functions
            as part of the model, and for functions that no mode sees, such as torch's own helpers. Other threads call wrappers
            that change nothing.
        compositions: Functions by torch's function, in the model's forward only. Each gets torch's function, the arguments as a
            tuple, and those by keyword as a dictionary. A replacement of the same function gets it as torch's function.
    """
    return redirected_in(Redirect, rows, model, attributes=attributes, compositions=compositions)


def redirected_in(
    mode: type[Redirect],
    rows: Rows,
    model: torch.nn.Module | None,
    *,
    attributes: bool = False,
    compositions: Mapping[Any, Callable[..., Any]] = MappingProxyType({}),
) -> contextlib.AbstractContextManager[Any]:
    """Redirect calls as `redirected` does, in a mode of this class."""
    found = [(owner, name, getattr(owner, name), instead) for owner, name, instead in rows if hasattr(owner, name)]
    table: dict[Any, Replacement] = {}
    for original, instead in dict.fromkeys((original, instead) for _, _, original, instead in found):  # one may have many places
        table[original] = functools.partial(_chained, table[original], instead) if original in table else instead
    if model is None and not attributes:
        return mode(table, None)
    patches = [(owner, name, _in_captures(original, table[original])) for owner, name, original, _ in found]
    if model is None:
        return replace_attributes(patches)
    if attributes:
        return _for_dynamo(patches)
    names = frozenset(function.__name__ for function in table)
    for function, composition in compositions.items():
        table[function] = functools.partial(_composed, table.get(function, _call), composition)
    return _in_forward(model, mode(table, names), patches)


def _chained(first: Replacement, second: Replacement, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a replacement that gets another one in place of torch's function."""
    return second(functools.partial(first, original), *args, **options)


@contextlib.contextmanager
def _in_forward(model: torch.nn.Module, mode: Redirect, patches: Rows) -> Iterator[None]:
    """Redirect the calls in a model's forward, by attributes in branches under Dynamo."""
    in_branches = (utils, "_set_compilation_env", _with_attributes(utils._set_compilation_env, patches, mode))
    with _in_call(model, mode), replace_attributes([in_branches]):
        yield


def _in_call(model: torch.nn.Module, mode: Redirect) -> contextlib.AbstractContextManager[None]:
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
                    return mode.data.replaced(function(*args, **options))
            finally:
                entered.clear()
                mode.data = AssignedData()

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


def _with_attributes(environment: Callable[[], Any], patches: Rows, mode: Redirect) -> Callable[[], Any]:
    """Return the settings for branches under Dynamo, with replaced attributes."""

    @contextlib.contextmanager
    def settings() -> Iterator[None]:
        if is_exporting() and mode.data:
            raise CaptureError(
                "an assignment to .data before a branch cannot be captured: the branch does not see it; to fix this, "
                "assign after the branch, or use a new tensor"
            )
        with _for_dynamo(patches) if is_exporting() else contextlib.nullcontext(), environment():  # not in another thread
            yield

    return settings


def _for_dynamo(patches: Rows) -> contextlib.AbstractContextManager[None]:
    """Replace attributes, after Dynamo has listed torch's functions.

    It does so once in a process, and would list the replacements.
    """
    from torch._dynamo import trace_rules  # takes a second
    from torch._dynamo.variables import torch as variables

    for module, name in (
        (trace_rules, "get_torch_obj_rule_map"),
        (trace_rules, "get_tensor_method"),
        (variables, "get_overridable_functions"),
    ):
        if hasattr(module, name):  # private to torch
            getattr(module, name)()
    return replace_attributes(patches)
