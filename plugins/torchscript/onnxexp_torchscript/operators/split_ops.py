"""`split` and `chunk` with a dynamic size: as many pieces as in the example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.jit.jit_nodes import unpacked
from onnxexp_torchscript.jit.jit_schemas import Call
from onnxexp_torchscript.types.abstract_tensor import AbstractTensor

_SPLITS = ("aten::split.Tensor", "aten::unsafe_split.Tensor")
_CHUNKS = ("aten::chunk", "aten::unsafe_chunk")


def kept_pieces(interpreter: Interpreter, call: Call, node: Any, args: Sequence[Any]) -> Any:
    """Split into as many pieces as in the example, and record the place for a warning.

    Raises CaptureError for a scripted graph, and for any other operator whose list has a dynamic length.
    """
    count = len(unpacked(node)) if interpreter.traced and node is not None and call.name in (*_SPLITS, *_CHUNKS) else 0
    x = interpreter.sizes.of(args[0]) if count else None
    if not isinstance(x, AbstractTensor):
        raise interpreter.refuse(f"{call.name} returns a list of unknown length", "make the number of pieces a constant")
    by = args[1] if isinstance(args[1], int) else interpreter.sizes.of(args[1])
    axis = args[2] % x.dim()
    size = x.shape[axis]
    step = by if call.name in _SPLITS else (size + by - 1) // by
    interpreter.kept[f"{call.name} gives as many pieces as for the example, {count}, at {interpreter.where}"] = None
    lengths = [*[step] * (count - 1), size - step * (count - 1)]
    pieces = [AbstractTensor(x.dtype, [*x.shape[:axis], length, *x.shape[axis + 1 :]]) for length in lengths]
    return interpreter.sizes.shortened(pieces)
