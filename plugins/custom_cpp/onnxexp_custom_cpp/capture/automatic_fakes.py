"""Fake kernels for operators whose author wrote none.

torch.export must know the output shapes of an operator at symbolic sizes. Here the real kernel runs on small tensors at several
sets of sizes, and each output size is traced back to the symbolic sizes of the inputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from onnxexp import CaptureError, warn

_OF_TORCH = """
aten prim prims quantized quantized_decomposed onnx inductor _inductor_test c10d c10d_functional _c10d_functional
_c10d_functional_autograd _dtensor sparse mkldnn mkl mkldnn_prepacked xnnpack prepacked vulkan vulkan_prepack static_runtime
_quantized debugprims rngprims higher_order streaming profiler fsdp symm_mem dist metal metal_prepack cuda cudnn nnapi _test
onnxexp torchao dynamo export onednn quantization
"""
_OWN = tuple(f"{namespace}::" for namespace in _OF_TORCH.split())
"""Namespaces of torch itself, whose operators have fake kernels or take no part in a capture."""

_Fill: TypeAlias = "Callable[[list[int]], torch.Tensor]"
_FILLS: tuple[_Fill, ...] = (torch.zeros, torch.ones, lambda shape: torch.rand(shape).cumsum(-1) if shape else torch.rand(shape))
"""Values of floating-point inputs; the last ones increase in each row, as the corners of boxes do."""


@contextlib.contextmanager
def automatic_fakes() -> Iterator[None]:
    """Register a fake kernel for every custom operator without one, for a while.

    Warnings come last: the capture drops those of torch.
    """
    unclear: dict[str, None] = {}
    with contextlib.ExitStack() as stack:
        for name in _without_fake():
            library = torch.library.Library(name.partition("::")[0], "FRAGMENT")  # type: ignore[no-untyped-call]
            stack.callback(library._destroy)
            torch.library.register_fake(name, _fake(name, unclear), lib=library)
        yield
    for message in unclear:
        warn(message)


def _without_fake() -> list[str]:
    """List the custom operators of the process that only have a real kernel."""
    loaded = len(sys.modules), len(torch.ops.loaded_libraries), frozenset(torch.library._impls)
    return [name for name in _custom_operators(loaded) if not _has_fake_kernel(name)]


@functools.lru_cache(maxsize=1)
def _custom_operators(loaded: object) -> list[str]:
    """List the custom operators; `loaded` is what may bring new ones.

    torch walks all of its operators for it, which takes 1 ms in an export. New operators come with a module, with a library that
    torch loads, or with a kernel that Python registers.
    """
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CPU")  # takes a fifth of the time of the list of all operators
    return [name for name in names if not name.startswith(_OWN)]


def _has_fake_kernel(name: str) -> bool:
    def has(key: str) -> bool:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))

    registered = torch._library.simple_registry.singleton.find(name).fake_impl.kernel
    return registered is not None or any(map(has, ("Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd")))


def _fake(name: str, unclear: dict[str, None]) -> Callable[..., Any]:
    """Return the fake kernel of an operator.

    What is unclear about it goes into a list.
    """
    packet, _, overload = name.partition(".")
    namespace, _, base = packet.partition("::")
    operator = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")

    def automatic(*args: Any, **kwargs: Any) -> Any:
        return _Probes(name, operator, args, kwargs, unclear).fake_results()

    return automatic


class _Probes:
    """Runs of a kernel at several sets of sizes, for one call of its fake kernel."""

    def __init__(self, name: str, operator: Any, args: Sequence[Any], kwargs: dict[str, Any], unclear: dict[str, None]) -> None:
        self.name, self._unclear = name, unclear
        self._operator = operator
        self._leaves, self._spec = pytree.tree_flatten((tuple(args), kwargs))
        sizes = [size for leaf in self._leaves for size in (leaf.shape if isinstance(leaf, torch.Tensor) else [leaf])]
        self._sizes = [size for size in sizes if isinstance(size, torch.SymInt)]
        self._like = next((leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor)), None)

    def fake_results(self) -> Any:
        """Empty fake tensors of the results' shapes.

        Raises CaptureError where the kernel does not run.
        """
        points = substitutions(self._sizes)
        fill, first = self._first(points[0])
        used, runs = [points[0]], [first]
        for point in points[1:]:
            with contextlib.suppress(Exception):  # these sizes may break a condition of the kernel's
                runs.append(self._run(point, fill))
                used.append(point)
        free = self._depends_on_values(points[0], first)
        flat = [pytree.tree_flatten(run)[0] for run in runs]
        spec = pytree.tree_structure(first)
        results = [self._result(index, [run[index] for run in flat], used, free) for index in range(len(flat[0]))]
        return pytree.tree_unflatten(results, spec)

    def _first(self, point: Callable[[Any], int]) -> tuple[_Fill, Any]:
        """Return the first values that the kernel takes, with its results."""
        problems: dict[str, None] = {}
        for fill in _FILLS:
            try:
                return fill, self._run(point, fill)
            except Exception as error:  # noqa: BLE001 - a kernel may raise anything
                problems[f"{type(error).__name__}: {error}"] = None
        raise CaptureError(
            f"{self.name} has no fake kernel, and its kernel runs neither on zeros of the example's sizes nor on other numbers: "
            f"{'; '.join(problems)}; write one with torch.library.register_fake({self.name!r})"
        )

    def _run(self, point: Callable[[Any], int], fill: _Fill) -> Any:
        """Return the results at one set of sizes. Integers are 0: they may be indices."""

        def real(leaf: Any) -> Any:
            if isinstance(leaf, torch.SymInt):
                return point(leaf)
            if not isinstance(leaf, torch.Tensor):
                return leaf
            shape = [point(size) for size in leaf.shape]
            made = fill(shape) if leaf.dtype.is_floating_point else torch.zeros(shape)
            return made.to(device=leaf.device, dtype=leaf.dtype)

        with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            args, kwargs = pytree.tree_unflatten([real(leaf) for leaf in self._leaves], self._spec)
            return self._operator(*args, **kwargs)

    def _depends_on_values(self, point: Callable[[Any], int], first: Any) -> set[tuple[int, int]]:
        """Return the results and axes whose size is another one for other values."""
        found: set[tuple[int, int]] = set()
        for fill in _FILLS:
            with contextlib.suppress(Exception):  # a kernel may refuse these values: then the others decide
                for index, (one, other) in enumerate(
                    zip(*map(pytree.tree_leaves, (first, self._run(point, fill))), strict=False)
                ):
                    if isinstance(one, torch.Tensor):
                        sizes = zip(one.shape, other.shape, strict=False)
                        found |= {(index, axis) for axis, (here, there) in enumerate(sizes) if here != there}
        return found

    def _result(self, index: int, runs: Sequence[Any], points: Sequence[Callable[[Any], int]], free: set[tuple[int, int]]) -> Any:
        made = runs[0]
        if not isinstance(made, torch.Tensor):
            return made
        shape: list[Any] = []
        for axis in range(made.dim()):
            values = [int(run.shape[axis]) for run in runs]
            rule = None if (index, axis) in free else rule_for(values, self._sizes, points)
            if rule is None:
                shape.append(self._new_size(index, axis))
            else:
                shape.append(self._size(rule, index, axis))
        device = self._like.device if self._like is not None else made.device
        return torch.empty(shape, dtype=made.dtype, device=device)

    def _size(self, rule: Rule, index: int, axis: int) -> Any:
        if rule.others:
            self._note(f"axis {axis} of its output {index} could be {' or '.join(rule.texts)}, and is taken for {rule.texts[0]}")
        return rule.size

    def _new_size(self, index: int, axis: int) -> Any:
        """Return a size that only the run knows."""
        self._note(f"axis {axis} of its output {index} follows from no input size, and is taken for one that depends on values")
        return torch.library.get_ctx().new_dynamic_size()

    def _note(self, what: str) -> None:
        fix = f"write one with torch.library.register_fake({self.name!r})"
        self._unclear[f"{self.name} has no fake kernel; {what}: {fix}"] = None


_PRIMES = ((11, 13, 17, 19, 23, 29, 31, 37), (37, 31, 29, 23, 19, 17, 13, 11))
_STEPS = ((2, 4, 6, 8, 10, 12, 14, 16), (6, 2, 10, 4, 14, 8, 16, 12))
"""Multiples of the example's sizes, for kernels that take only some sizes."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """A size, in terms of the inputs' sizes.

    Attributes:
        size: A number, or a symbolic size.
        texts: The possible rules as text; the first is `size`.
    """

    size: Any
    texts: tuple[str, ...]

    @property
    def others(self) -> bool:
        """Whether other rules give the same numbers."""
        return len(self.texts) > 1


def substitutions(sizes: Sequence[Any]) -> list[Callable[[Any], int]]:
    """Functions from a symbolic size to a number: the example's, then other sets.

    Each other set gives every symbol its own number.
    """
    if not sizes:
        return [int]
    hints = sizes[0].node.shape_env.backed_var_to_val
    symbols = sorted({symbol for size in sizes for symbol in size.node.expr.free_symbols}, key=str)
    example = {symbol: int(hints.get(symbol, 2)) for symbol in symbols}
    points = [example]
    for primes, steps in zip(_PRIMES, _STEPS, strict=True):
        points.append({symbol: primes[index % 8] for index, symbol in enumerate(symbols)})
        points.append({symbol: example[symbol] * steps[index % 8] for index, symbol in enumerate(symbols)})
    return [_substitute(point) for point in points]


def _substitute(point: dict[Any, int]) -> Callable[[Any], int]:
    def number(size: Any) -> int:
        return int(size.node.expr.xreplace(point)) if hasattr(size, "node") else int(size)

    return number


def rule_for(values: Sequence[int], sizes: Sequence[Any], points: Sequence[Callable[[Any], int]]) -> Rule | None:
    """Find the rule of an output size with these values at these points, or None.

    A number, an input's size, and one that differs from an input's size by a number or a factor are tried before sums and
    products of two. Of one kind, several may fit: where the kernel runs at few sizes, or two sizes are equal.
    """
    distinct = list({str(size): size for size in sizes}.values())
    known = [(size, [point(size) for point in points]) for size in distinct]
    if len(set(values)) == 1 and (len(values) > 1 or not known):
        return Rule(values[0], (str(values[0]),))
    if len(values) == 1:
        fitting = [size for size, numbers in known if numbers[0] == values[0]]
        if not fitting:
            return Rule(values[0], (str(values[0]), "a size that follows from the inputs'"))
        return Rule(fitting[0], (*map(str, fitting), str(values[0])))
    for kind in (_affine, _pairs):
        fitting = list({str(size): size for size in kind(values, known)}.values())
        if fitting:
            return Rule(fitting[0], tuple(map(str, fitting)))
    return None


def _affine(values: Sequence[int], known: Sequence[tuple[Any, list[int]]]) -> Iterator[Any]:
    """Sizes ``a * size + b`` or ``size // a``."""
    for size, numbers in known:
        pairs = sorted(set(zip(numbers, values, strict=True)))
        if len({number for number, _ in pairs}) < 2 or len({number for number, _ in pairs}) < len(pairs):
            continue
        (x0, y0), (x1, y1) = pairs[0], pairs[-1]
        factor, rest = divmod(y1 - y0, x1 - x0)
        if rest == 0 and factor > 0 and all(factor * x + y0 - factor * x0 == y for x, y in pairs):
            yield size * factor + (y0 - factor * x0)
            continue
        for divisor in (2, 3, 4, 5, 8, 16, 32):
            for shift in range(-2 * divisor, 2 * divisor):
                if all((x + shift) // divisor == y for x, y in pairs):
                    yield (size + shift) // divisor


def _pairs(values: Sequence[int], known: Sequence[tuple[Any, list[int]]]) -> Iterator[Any]:
    """Yield sums and products of two sizes."""
    for (one, first), (other, second) in itertools.combinations(known, 2):
        if all(x + y == value for x, y, value in zip(first, second, values, strict=True)):
            yield one + other
        if all(x * y == value for x, y, value in zip(first, second, values, strict=True)):
            yield one * other
