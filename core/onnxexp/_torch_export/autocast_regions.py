"""Retrace regions under autocast that torch.export recorded as if it were off."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx.node import map_arg

from onnxexp._capture.torch_state import silence_warnings


def resolve_autocast(program: ExportedProgram) -> ExportedProgram:
    """Retrace a program whose regions under autocast have wrong dtypes.

    With ``strict=True``, torch.export records the operators of such a region as if autocast were off, so that its result has
    another dtype than the program. Other programs are returned as they are, since a retrace takes as long as the export.
    """
    if not any(_is_wrong(region, module) for module, region in _regions(program.graph_module)):
        return program
    with silence_warnings():
        retraced: ExportedProgram = program.run_decompositions({})
    return retraced


def _regions(root: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.GraphModule, torch.fx.Node]]:
    for module in root.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.wrap_with_autocast):
                yield module, node


def _is_wrong(region: torch.fx.Node, owner: torch.fx.GraphModule) -> bool:
    """Return whether an operator of the region returns another dtype under autocast."""
    device, dtype, enabled, cache, body, *_ = region.args
    assert isinstance(body, torch.fx.Node)
    module = owner.get_submodule(str(body.target))
    assert isinstance(module, torch.fx.GraphModule)
    with torch.autocast(str(device), dtype, bool(enabled), cache):  # type: ignore[arg-type]
        return any(map(_has_other_dtype, module.graph.nodes))


def _has_other_dtype(node: torch.fx.Node) -> bool:
    """Return whether an operator on fake tensors has another dtype than recorded."""
    recorded = node.meta.get("val")
    if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(recorded, torch.Tensor):
        return False
    if not recorded.is_floating_point() or node.target._schema.is_mutable:  # a write keeps the dtype
        return False
    if torch.Tag.dynamic_output_shape in node.target.tags:  # it would make new sizes
        return False
    mode = detect_fake_mode([recorded])
    if mode is None or any(each.meta.get("val") is None for each in node.all_input_nodes):
        return False
    args, kwargs = map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    with mode:
        return bool(node.target(*args, **kwargs).dtype != recorded.dtype)
