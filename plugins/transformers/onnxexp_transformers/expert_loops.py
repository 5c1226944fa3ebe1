"""Let an export compute every expert, not only those that have a token.

transformers' layers of experts loop over ``(…).nonzero()``, the experts that a token of the batch has chosen. An expert without
tokens adds nothing to the result, so that the loop over all of them computes the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxexp import is_in_onnx_export
from onnxexp.frontends import replace_attributes


@contextlib.contextmanager
def all_experts(model: torch.nn.Module) -> Iterator[None]:
    """Let a model's layers of experts loop over all experts inside the `with`."""
    layers = [module for module in model.modules() if _loops(module)]
    with replace_attributes((layer, "forward", _over_all(layer, layer.forward)) for layer in layers):
        yield


def _loops(module: torch.nn.Module) -> bool:
    """Return whether a module is a dict of experts.

    Other layers have one tensor for all experts.
    """
    return isinstance(module, torch.nn.ModuleDict) and "num_experts" in vars(module)


def _over_all(layer: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
    nonzero = torch.Tensor.nonzero

    def listed(self: torch.Tensor, **options: Any) -> Any:
        every = self.dim() == 1 and self.shape[0] == layer.num_experts and not options
        return [[index] for index in range(layer.num_experts)] if every else nonzero(self, **options)

    @functools.wraps(forward)
    def call(*args: Any, **options: Any) -> Any:
        if not is_in_onnx_export():
            return forward(*args, **options)
        with replace_attributes([(torch.Tensor, "nonzero", listed)]):
            return forward(*args, **options)

    return call
