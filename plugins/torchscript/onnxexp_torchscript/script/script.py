"""Programs of scripted modules, and of modules that torch.jit.script compiles."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.jit import _state
from torch.jit._recursive import concrete_type_store
from torch.jit._trace import TopLevelTracedModule, TracedModule
from torch.utils import _pytree as pytree

from onnxexp import CaptureError
from onnxexp.frontends import DynamicSpec, TensorList, is_scripted, replace_attributes, run_fitting, signature_of
from onnxexp_torchscript.jit.source_locations import Places
from onnxexp_torchscript.script.augmented_assignments import augmented_assignments
from onnxexp_torchscript.script.compiled_results import check_compiled
from onnxexp_torchscript.trace.random_state import RandomState
from onnxexp_torchscript.trace.trace import Recording, run_example


def script(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec) -> Recording:
    """Script a model; raise CaptureError if torch.jit.script or the model fails."""
    scripted = _scripted(model)
    method = _forward(scripted) if isinstance(scripted, torch.jit.ScriptModule) else scripted
    graph, module = method.graph.copy(), None if method is scripted else scripted
    torch._C._jit_pass_inline(graph)
    random = RandomState()
    run = functools.partial(run_example, model)
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
