"""Caches of transformers as nodes of torch's pytree.

A cache is flattened into its tensors, with keys by layer: ``0.key``, ``0.value``, ``1.conv_state``, ``1.recurrent_state``. The
layers of an encoder-decoder cache are ``0.decoder.key`` and ``0.encoder.key``. The number of tokens in a static cache, which is
the same in every layer, is ``length``. All else (classes, flags, windows) is the context of the node: a call of the program must
have the same. Contexts are JSON, so that torch can save a program with such an input.

The parameter is ``cache`` since transformers 5.24, and ``past_key_values`` or, without attention, ``cache_params`` before. A
graph has ``past_key_values.0.key`` with every version, since the programs that load such files read that name.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import OptionError
from onnxexp.frontends import RenamingKey

_registration = threading.Lock()
_NAMES = {"keys": "key", "values": "value", "conv_states": "conv_state", "recurrent_states": "recurrent_state"}
_TAGS = {"self_attention_cache": "decoder", "cross_attention_cache": "encoder"}
_DERIVED = ("batch_size", "_sliding_window_tensor")
"""Attributes of layers that follow from others; in the context they would fix a size."""


def register_caches() -> None:
    """Register the cache classes of transformers that have been imported.

    The function imports nothing. A class that is registered already keeps its registration, since programs may depend on its
    structure: after transformers' own registration of DynamicCache the names of its tensors are ``key_cache.0`` and
    ``value_cache.0``.
    """
    module = sys.modules.get("transformers.cache_utils")
    base = None if module is None else vars(module).get("Cache")  # absent while another thread imports the module
    if base is None:
        return
    with _registration:
        for cls in (base, *_subclasses(base)):
            if cls not in pytree.SUPPORTED_NODES:
                pytree.register_pytree_node(
                    cls, _flatten, _unflatten, serialized_type_name=_path(cls), flatten_with_keys_fn=_flatten_with_keys
                )


def _subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    for each in cls.__subclasses__():
        yield each
        yield from _subclasses(each)


def named_tensors(cache: Any) -> dict[str, torch.Tensor]:
    """Return the tensors of a cache, by the names that they have in a graph."""
    return dict(_described(cache)[0])


def _flatten(cache: Any) -> tuple[list[Any], Any]:
    leaves, context = _described(cache)
    return [leaf for _, leaf in leaves], context


def _flatten_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], Any]:
    leaves, context = _described(cache)
    return [(RenamingKey(name, RENAMED), leaf) for name, leaf in leaves], context


def _described(cache: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the named leaves of a cache, its token counts last, and the rest."""
    writer = _Writer()
    context = writer.object(cache, "")
    return [*writer.leaves, *reversed(writer.lengths.values())], context


def _unflatten(leaves: Iterable[Any], context: Any) -> Any:
    return _read(context, list(leaves))


@dataclasses.dataclass(frozen=True)
class _Slot:
    """A wrapper of a leaf that is no tensor.

    pytree also builds caches from such leaves, for example from positions.
    """

    value: Any


class _Writer:
    """Collect the tensors of a cache, and describe the rest of it as JSON."""

    def __init__(self) -> None:
        self.leaves: list[tuple[str, Any]] = []
        self.lengths: dict[str, tuple[str, Any]] = {}

    def object(self, value: Any, tag: str) -> Any:
        """Describe a cache or a layer by its attributes."""
        return {"object": _path(type(value)), "state": [[name, each] for name, each in self._state(value, tag)]}

    def _state(self, value: Any, tag: str) -> Iterator[tuple[str, Any]]:
        for name, each in vars(value).items():
            if name == "layers":
                yield name, {"list": [self.object(layer, f"{index}{tag}") for index, layer in enumerate(each)]}
            elif name in _TAGS:
                yield name, self.object(each, f".{_TAGS[name]}")
            elif name == "cumulative_length":
                static = "max_cache_len" in vars(value)
                yield name, self._length(each, tag.lstrip("0123456789.")) if static else self._dropped(each, value.keys)
            elif name not in _DERIVED:
                yield name, self._value(each, f"{tag}.{_NAMES.get(name, name)}".lstrip("."))

    def _length(self, length: Any, tag: str) -> Any:
        """Describe the number of tokens in a static cache, a tensor."""
        self.lengths.setdefault(tag, (f"{tag}.length".lstrip("."), _content(length)))
        return {"length": -1 - list(self.lengths).index(tag)}  # a place from the end

    def _dropped(self, length: Any, keys: Any) -> Any:
        """Describe the number of tokens that a layer with a window has seen.

        Where the window is not full, the number is that of the keys. Only the difference is part of the context, so that the
        number of keys may be dynamic.
        """
        return {"dropped": int(length - _tokens(keys))}

    def _value(self, value: Any, name: str) -> Any:
        if isinstance(value, (torch.Tensor, _Slot)):
            self.leaves.append((name, _content(value)))
            return {"tensor": len(self.leaves) - 1}
        if isinstance(value, (list, tuple)):
            return {"list": [self._value(each, f"{name}.{index}") for index, each in enumerate(value)]}
        if isinstance(value, dict):
            names = [name if len(value) == 1 else f"{name}.{key}" for key in value]
            pairs = zip(value.items(), names, strict=True)
            return {"items": [[key, self._value(each, each_name)] for (key, each), each_name in pairs]}
        return _constant(value, name)


def _content(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, _Slot) else leaf


def _constant(value: Any, name: str) -> Any:
    if isinstance(value, torch.SymInt):
        return int(value)  # fixes the size; the core reports it
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, type):
        return {"class": _path(value)}
    raise TypeError(f"the cache's attribute {name} is a {type(value).__name__}, which cannot be part of an exported program")


def _read(plan: Any, leaves: Sequence[Any]) -> Any:
    """Build a cache from the description of a `_Writer`."""
    if not isinstance(plan, dict):
        return plan
    kind, content = next(iter(plan.items()))
    if kind == "object":
        return _built(_imported(content), plan["state"], leaves)
    if kind in ("tensor", "length"):
        leaf = leaves[content]
        if not isinstance(leaf, torch.Tensor):
            return _Slot(leaf)
        return leaf if kind == "tensor" else leaf.clone()  # layers count in place, each in a tensor of its own
    if kind == "list":
        return [_read(each, leaves) for each in content]
    if kind == "items":
        return {key: _read(each, leaves) for key, each in content}
    if kind == "class":
        return _imported(content)
    return vars(torch)[content] if kind == "dtype" else torch.device(content)


def _built(cls: type[Any], state: Sequence[Any], leaves: Sequence[Any]) -> Any:
    """Make an object without its constructor, and compute the derived attributes."""
    made: Any = object.__new__(cls)
    given = dict(state)
    own = vars(made)
    own.update({name: None if _is_count(plan) else _read(plan, leaves) for name, plan in given.items()})
    keys = own.get("keys")
    for name, plan in given.items():
        if _is_count(plan):
            own[name] = plan["dropped"] + _tokens(keys)
    if "sliding_window" in own:
        own["_sliding_window_tensor"] = torch.tensor(own["sliding_window"], dtype=torch.long)
    if "max_cache_len" in own and isinstance(keys, torch.Tensor):
        own["batch_size"] = keys.shape[0]
    return made


def _tokens(keys: Any) -> int:
    return keys.shape[-2] if isinstance(keys, torch.Tensor) else 0


def _is_count(plan: Any) -> bool:
    return isinstance(plan, dict) and "dropped" in plan


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _imported(path: str) -> type[Any]:
    module, _, name = path.rpartition(".")
    found: type[Any] = vars(importlib.import_module(module))[name]
    return found


RENAMED = {"cache": "past_key_values", "cache_params": "past_key_values"}
"""The name of a cache in a graph, by that of the parameter or of the field of a result; others stay."""


def cache_parameter(forward: Callable[..., Any]) -> str | None:
    """Return the name of a forward's parameter for the cache, or None.

    The name is ``cache`` from transformers 5.24 on, ``past_key_values`` or ``cache_params`` before. A ``cache`` that is a dict,
    as in XLM and FlauBERT, does not count.

    Args:
        forward: The forward of a model of transformers.
    """
    accepted = inspect.signature(forward).parameters
    names = (name for name in ("past_key_values", *RENAMED) if name in accepted)
    return next((name for name in names if "dict" not in str(accepted[name].annotation)), None)


def cache_argument(forward: Callable[..., Any], cache: Any) -> dict[str, Any]:
    """Return a cache as a keyword argument of a forward.

    Raises OptionError for a forward without a parameter for the cache.
    """
    name = cache_parameter(forward)
    if name is None:
        raise OptionError(f"{forward.__qualname__} has no parameter for a cache; to fix this, choose another task")
    return {name: cache}
