"""Programs of scripted modules, and of modules that torch.jit.script compiles.

torch.jit.script drops ``x[0] ^= y``, ``|=``, ``&=`` and ``**=``, compiles ``x ^= y`` of a tensor out of place, so that views of
`x` keep their values, and ``x %= y`` as ``fmod_``, which has the sign of `x`.

The compiler removes writes that it takes for dead code: by torch's schemas, ``torch.atleast_3d(x)`` and ``x.type_as(y)`` return
new tensors, and a write into the result leaves `x` as it was. In eager PyTorch the two are one tensor.
"""

from __future__ import annotations

import ast
import functools
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._C._jit_tree_views import Apply, Assign, BinOp, ExprStmt, Ident, If, Select, SourceRangeFactory, Subscript, Var
from torch._subclasses.fake_tensor import FakeTensor
from torch.jit import _state
from torch.jit._fuser import optimized_execution
from torch.jit._recursive import concrete_type_store
from torch.jit._trace import TopLevelTracedModule, TracedModule
from torch.jit.frontend import ExprBuilder, StmtBuilder, build_expr
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp.frontends import DynamicSpec, TensorList, is_scripted, replace_attributes, run_fitting, signature_of
from onnxexp_torchscript.jit.inlined_calls import inline, optimize_methods
from onnxexp_torchscript.jit.source_locations import Places
from onnxexp_torchscript.trace.random_state import RandomState
from onnxexp_torchscript.trace.trace import Recording, run_example


def script(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec) -> Recording:
    """Script a model; raise CaptureError if torch.jit.script or the model fails."""
    scripted = _scripted(model)
    method = _forward(scripted) if isinstance(scripted, torch.jit.ScriptModule) else scripted
    graph, module = method.graph.copy(), None if method is scripted else scripted
    inline(graph)
    random = RandomState()
    run = functools.partial(run_example, model)
    optimize_methods(model)
    # the first run folds constants, and would pass numbers in place of tensors to a mode
    with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
        (args, kwargs), result = run_fitting(run, run, args, kwargs, spec)
    flat, in_spec = pytree.tree_flatten((args, kwargs))
    if not is_scripted(model) and method.name != "forward__0":  # Python cannot call a module with overloads
        check_compiled(scripted, args, kwargs, result, random)
    found, out_spec = pytree.tree_flatten(result)
    leaves = [index for index, leaf in enumerate(flat) if isinstance(leaf, (torch.Tensor, TensorList)) or index in spec.scalars]
    returned = [isinstance(leaf, (torch.Tensor, bool, int, float)) for leaf in found]
    places = Places(dict(model.named_modules()), inlined=True)
    signature = signature_of(method)
    return Recording(
        graph, leaves, flat, {}, module, found, returned, in_spec, out_spec, places, [],
        traced=isinstance(scripted, (TracedModule, TopLevelTracedModule)), signature=signature,
    )  # fmt: skip


def _forward(scripted: torch.jit.ScriptModule) -> Any:
    """Return the compiled forward, or the first of its overloads (nn.LSTM)."""
    named = {name: scripted._c._get_method(name) for name in scripted._c._method_names()}
    for name in ("forward", "forward__0"):
        if name in named:
            return named[name]
    raise CaptureError(f"{type(scripted).__name__} has no forward; its methods: {', '.join(named)}")


def _scripted(model: torch.nn.Module) -> Any:
    if isinstance(model, torch.jit.ScriptModule):
        return model
    function = vars(model).get("scripted") or (vars(model).get("forward") if not list(model.children()) else None)
    if isinstance(function, torch.jit.ScriptFunction):
        return function
    with warnings.catch_warnings(), replace_attributes([*augmented_assignments(), *_own_caches()]):
        warnings.simplefilter("ignore")  # torch.jit is deprecated; the user chose it
        try:
            return torch.jit.script(function if function is not None else model)
        except Exception as error:  # noqa: BLE001 - the compiler's errors have no common base
            fix = 'write that part in the Python that torch.jit.script reads, or use capture="trace"'
            raise CaptureError(f"torch.jit.script: {type(error).__name__}: {str(error).strip()}\nTo fix this, {fix}") from None


def _own_caches() -> Iterator[tuple[Any, str, Any]]:
    """Yield replacements (owner, name, object) of the compiler's caches by empty ones.

    The caches have what the user compiled, without our replacements, and classes whose compilation failed: these give another
    error at the next attempt. Overloaded functions stay cached: torch forgets their declarations once it has compiled them.
    """
    yield concrete_type_store, "type_store", {}
    yield concrete_type_store, "methods_compiled", set()
    yield _state, "_jit_caching_layer", weakref.WeakKeyDictionary()


_METHODS = {
    ast.BitXor: "bitwise_xor_",
    ast.BitOr: "bitwise_or_",
    ast.BitAnd: "bitwise_and_",
    ast.Pow: "pow_",
    ast.Mod: "remainder_",
}
_NAME = "Tensor"


def augmented_assignments() -> Iterator[tuple[Any, str, Any]]:
    """Yield the replacement (owner, name, function) in torch's compiler."""
    yield StmtBuilder, "build_AugAssign", staticmethod(_built_by(StmtBuilder.build_AugAssign))


def _built_by(original: Callable[[Any, ast.AugAssign], Any]) -> Callable[[Any, ast.AugAssign], Any]:
    """Return a builder of ``x[i] = x[i] ^ y``, or of an in-place method of a tensor."""

    def build(ctx: Any, stmt: ast.AugAssign) -> Any:
        method = _METHODS.get(type(stmt.op))
        if method is None:
            return original(ctx, stmt)
        target, value = build_expr(ctx, stmt.target), build_expr(ctx, stmt.value)
        where = target.range()
        if isinstance(target, Subscript):
            return Assign([target], BinOp(ExprBuilder.binop_map[type(stmt.op)], target, value))
        tensor = Var(Ident(SourceRangeFactory(_NAME, None, 0, 0).make_raw_range(0, len(_NAME)), _NAME))
        is_tensor = Apply(Var(Ident(where, "isinstance")), [target, tensor], [])
        return If(where, is_tensor, [ExprStmt(Apply(Select(target, Ident(where, method)), [value], []))], [original(ctx, stmt)])

    return build


_FIX = (
    "write into the tensor itself, not into what type_as, atleast_2d or einsum returned for it; make code under "
    'torch.jit.is_scripting() compute what the other branch does; or use capture="trace"'
)
_FAILS = "the program that torch.jit.script compiles fails on the example inputs", 'mend that line, or use capture="trace"'


class _Calls(torch.nn.Module):
    """A scripted function as a module."""

    def __init__(self, function: torch.jit.ScriptFunction[Any, Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


def check_compiled(scripted: Any, args: Sequence[Any], kwargs: Mapping[str, Any], expected: Any, random: RandomState) -> None:
    """Compare a compiled program with the results expected of it.

    Raises CaptureError where it fails, or returns other values.
    """
    module = scripted if isinstance(scripted, torch.nn.Module) else _Calls(scripted)
    with random.again(), optimized_execution(False):
        found = run_example(module, args, kwargs, *_FAILS)
    pairs = list(zip(pytree.tree_leaves(expected), pytree.tree_leaves(found), strict=False))
    for number, (one, other) in enumerate(pairs):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and _differ(one, other):
            which = f"result {number} of the model" if len(pairs) > 1 else "the model's result"
            raise CaptureError(f"torch.jit.script compiles another program: {which} differs from eager's; to fix this, {_FIX}")


def _differ(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one dtype differ by more than rounding."""
    if one.dtype != other.dtype or one.is_quantized or one.layout is not torch.strided:
        return False  # the conversion refuses another dtype, with both
    if one.is_meta or isinstance(one, FakeTensor):
        return one.shape != other.shape  # they have no values
    if one.is_floating_point():
        one, other = one.double(), other.double()  # float8 has no arithmetic
    return one.shape != other.shape or not torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)
