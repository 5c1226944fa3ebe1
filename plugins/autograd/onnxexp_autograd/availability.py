"""Check whether the installed torch lets the plugin keep Functions whole."""

from __future__ import annotations

import functools

import torch


@functools.cache
def unavailable(*, dynamo: bool) -> str:
    """Return why this torch cannot keep Functions whole, or "" if it can.

    `dynamo` states whether Dynamo may run inside the capture.
    """
    try:
        from onnxexp_autograd import function_capture, interception, torch_internals  # noqa: F401 - imports every name that the plugin uses of torch

        if dynamo:
            torch_internals.dynamo_allowed_ids()
    except (ImportError, AttributeError) as error:
        return f"torch {torch.__version__} lacks internals that onnxexp-plugin-autograd needs ({error})"
    try:
        with torch_internals.disable_current_modes():  # the user may have called the export inside a fake mode
            works = interception.works()
    except (
        AttributeError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:  # from torch's code
        return f"torch {torch.__version__} calls autograd Functions in a new way ({error})"
    return "" if works else f"torch {torch.__version__} calls autograd Functions in a new way"
