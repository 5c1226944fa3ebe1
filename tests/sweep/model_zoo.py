"""The models of `tests/models` as a zoo.

`make sweep` writes the zoo file into the repository's root, which is the folder of the cells, and runs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from torch.utils import _pytree as pytree

from tests.models.case import TRANSFORMER_OPSETS, ModelCase
from tests.models.test_models import CASES, EXPORT_ONLY

OPSETS = TRANSFORMER_OPSETS
PRELOAD = ("pytest", "transformers.modeling_utils")
"""What the models import from other distributions and takes the longest."""


def __getattr__(name: str) -> Callable[[], dict[str, Any]]:
    """Return the factory of a model: ``tests.sweep.model_zoo:resnet18``."""
    if name not in CASES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return lambda: _arguments(CASES[name])


def _arguments(case: ModelCase) -> dict[str, Any]:
    args, kwargs = case.inputs(case.sizes)
    return {"model": case.build(), "args": args, "kwargs": kwargs, "dynamic_shapes": case.dynamic_shapes}


def zoo(names: Collection[str] = CASES) -> str:
    """Return the text of the zoo file, with some of the models or all."""
    return "\n".join(_lines(names)) + "\n"


def _lines(names: Collection[str]) -> Iterator[str]:
    yield f'[sweep]\nopset = {list(OPSETS)}\nfrontend = ["export", "trace"]\npreload = {json.dumps(PRELOAD)}'
    for name in names:
        case = CASES[name]
        yield f'\n[models."{name}"]\ntarget = "tests.sweep.model_zoo:{name}"\nrtol = {case.rtol}\natol = {case.atol}'
        if not {*OPSETS} <= {*case.opsets}:
            yield f"opset = {[opset for opset in OPSETS if opset in case.opsets]}"
        if name in EXPORT_ONLY:
            yield 'frontend = ["export"]'
        axes = {leaf for leaf in pytree.tree_leaves(case.dynamic_shapes) if isinstance(leaf, str)}
        sizes = [sizes for sizes in case.other_sizes if sizes and {*sizes} <= axes]
        if sizes:
            tables = ", ".join(
                "{ " + ", ".join(f"{json.dumps(axis)} = {size}" for axis, size in each.items()) + " }" for each in sizes
            )
            yield f"sizes = [{tables}]"


if __name__ == "__main__":
    print(zoo(), end="")
