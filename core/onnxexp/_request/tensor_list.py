"""Lists of tensors that are one input, for `List[Tensor]` parameters of a script."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnxexp._request.module_and_forward import as_module, forward_of, is_scripted
from onnxexp._request.pytree_leaves import bind
from onnxexp._torch_compat import TracedModules

_LIST = re.compile(r"(Optional\[)?[Ll]ist\[Tensor\]\]?( \| None)?")
"""The text of a type, without modules: TorchScript's, Python's, or a string in the source."""


class TensorList(list[torch.Tensor]):
    """A list of tensors as one leaf: torch's pytree flattens no subclass of list."""

    @property
    def shape(self) -> torch.Size:
        """The sizes of the first tensor."""
        return self[0].shape if self else torch.Size()

    @classmethod
    def in_call(
        cls, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], capture: str, shapes: Any = None, axes: Any = None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a call whose lists for `List[Tensor]` parameters of a script are leaves.

        A list that the user describes element by element in `dynamic_shapes` or `dynamic_axes` stays as many leaves as elements.
        """
        module = as_module(model)
        if not (is_scripted(module) or capture == "script") or isinstance(module, TracedModules):
            return tuple(args), dict(kwargs)
        call = bind(forward_of(module), args, kwargs)
        by_name = shapes if isinstance(shapes, Mapping) else dict(zip(call.arguments, shapes or (), strict=False))
        by_element = {name for name, shape in by_name.items() if isinstance(shape, (list, tuple))}
        by_element |= {str(key).partition(".")[0] for key in (*by_name, *(axes or ())) if "." in str(key)}
        lists: dict[int, TensorList] = {}
        for name, value in call.arguments.items():
            declared = re.sub(r"\w+\.", "", str(call.signature.parameters[name].annotation))
            if type(value) is list and name not in by_element and _LIST.fullmatch(declared):
                lists[id(value)] = cls(value)
        new_args = tuple(lists.get(id(value), value) for value in args)
        new_kwargs = {name: lists.get(id(value), value) for name, value in kwargs.items()}
        return new_args, new_kwargs
