"""Parameters that a traced forward writes into: they get their contents back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch

from onnxexp import CaptureError


@contextlib.contextmanager
def restored_parameters(state: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Undo the writes of a trace into the parameters among a model's tensors.

    torch copies the memory of a lazy clone at the first write, so that parameters that are only read are not copied: for
    BERT-base, the clones take 1 ms. A dispatch mode, which could see the writes, must not be active: the tracer records the
    result of a convolution as a constant then.

    Raises CaptureError for a write into memory that torch cannot clone lazily, such as that of a mapped file.
    """
    parameters = [(name, each) for name, each in state.items() if isinstance(each, torch.nn.Parameter)]
    named = [(name, each) for name, each in parameters if torch._C._has_storage(each) and not each.is_inference()]
    kept = [(name, parameter, parameter._version, _lazy_clone(parameter)) for name, parameter in named]
    lost = []
    try:
        yield
    finally:
        for name, parameter, version, old in kept:
            if parameter._version != version and old is not None:
                with torch.no_grad():
                    parameter.copy_(old)
            elif parameter._version != version:
                lost.append(name)
    if lost:
        raise CaptureError(
            f"the forward writes into {', '.join(lost)} while it is traced, and the old contents are lost, since their memory "
            "cannot be cloned lazily; "
            "to fix this, give the model parameters of its own memory, parameter.data = parameter.clone()"
        )


def _lazy_clone(parameter: torch.Tensor) -> torch.Tensor | None:
    try:
        return torch._lazy_clone(parameter.detach())
    except RuntimeError:  # memory of another owner than torch, such as NumPy
        return None
