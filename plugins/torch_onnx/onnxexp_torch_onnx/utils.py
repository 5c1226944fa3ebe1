"""The functions of ``torch.onnx.utils``, under their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

import onnxexp
from onnxexp import LoweringError, UnsupportedOperators, is_in_onnx_export
from onnxexp.graph import Graph
from onnxexp_torch_onnx.context import GraphContext
from onnxexp_torch_onnx.export_state import (
    disable_log,
    enable_log,
    exporter_context,
    select_model_mode_for_export,
    set_training,
    setup_onnx_logging,
    training_mode,
)
from onnxexp_torch_onnx.exporting import export, export_to_pretty_string
from onnxexp_torch_onnx.registry import register_custom_op_symbolic, registered, unregister_custom_op_symbolic
from onnxexp_torch_onnx.settings import settings

__all__ = [
    "disable_log",
    "enable_log",
    "export",
    "export_to_pretty_string",
    "exporter_context",
    "is_in_onnx_export",
    "is_onnxrt_backend_supported",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "set_training",
    "setup_onnx_logging",
    "unconvertible_ops",
    "unpack_quantized_tensor",
    "unregister_custom_op_symbolic",
]


def unconvertible_ops(
    model: Any, args: Any, training: Any = None, opset_version: int | None = None, **options: Any
) -> tuple[Graph, list[str]]:
    """Return the captured graph, and the operators that cannot be lowered.

    The list has one entry for each node that cannot be lowered at the opset, without the overload.

    `options` are those of `onnxexp.export`.
    """
    symbols = registered()
    plugins = [symbols.symbolics, *(options.pop("plugins", None) or [...])]
    keeper = _GraphKeeper()
    with settings(python_ops=symbols.python_ops):
        report = onnxexp.check(
            model, args, opset_version=opset_version, training=training_mode(training), plugins=[keeper, *plugins], **options
        )
    error = report.error
    if error is not None and not isinstance(error, LoweringError):
        raise error
    counts = error.counts if isinstance(error, UnsupportedOperators) else {}
    missing = [node.op for node, plugin in report.lowered if not plugin]
    for op, count in counts.items():
        missing += [op] * (count - missing.count(op))
    return keeper.graph, [op.partition(".")[0] for op in missing]


class _GraphKeeper:
    """A plugin that keeps a reference to the captured graph."""

    graph: Graph

    @onnxexp.hookimpl
    def pre_pass(self, options: onnxexp.Options) -> Callable[[Graph], None]:
        def keep(graph: Graph) -> None:
            self.graph = graph

        return keep


def _add_block(node: Any) -> Any:
    """Add a block to a node of a symbolic's graph."""
    return node.addBlock()


def _add_input_to_block(block: Any) -> Any:
    """Add an input to a block, and return its value."""
    return block.addInputToBlock()


def _add_output_to_block(block: Any, value: Any) -> int:
    """Add a value to the outputs of a block, and return its index."""
    return int(block.registerOutput(value))


def _newNode(g: GraphContext, opname: str, outputs: int, *args: Any, **kwargs: Any) -> Any:
    """Add a node to a symbolic's graph, and return it."""
    result = g.op(opname, *args, outputs=outputs, **kwargs)
    return (result[0] if isinstance(result, tuple) else result).node()


def is_onnxrt_backend_supported() -> bool:
    """Return whether this torch has the backend ``onnxrt`` for `torch.compile`."""
    import torch._dynamo  # torch's compiler takes seconds to import

    return "onnxrt" in torch._dynamo.list_backends()


def unpack_quantized_tensor(value: Any, cast_onnx_accepted: bool = True) -> tuple[Any, ...]:
    """Split a quantized tensor into its integers, scale and zero point.

    Any other value is the only element of the result.

    `cast_onnx_accepted` makes the scale float64 and the zero point int64, in place of float32 and the integers' dtype.
    """
    if not isinstance(value, torch.Tensor) or not value.is_quantized:
        return (value,)
    integers = value.int_repr()
    dtypes = (torch.float64, torch.int64) if cast_onnx_accepted else (torch.float32, integers.dtype)
    parts = zip((value.q_scale(), value.q_zero_point()), dtypes, strict=True)
    return integers, *(torch.tensor(part, dtype=dtype) for part, dtype in parts)


def model_signature(model: Any) -> Any:
    """Return the signature of the model's forward."""
    return inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
