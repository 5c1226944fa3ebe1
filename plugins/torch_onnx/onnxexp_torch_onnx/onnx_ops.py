"""Symbolics for ``torch.onnx.ops``, the ONNX operators that a model calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp import Builder, SymbolicTable, Tensor

table = SymbolicTable("onnx_symbolic")


@table("onnx::RotaryEmbedding", since=23)
def rotary_embedding(
    op: Builder, x: Tensor, cos: Tensor, sin: Tensor, position_ids: Any, interleaved: bool, num_heads: int, dim: int
) -> Any:
    """Lower ``torch.onnx.ops.rotary_embedding`` to RotaryEmbedding."""
    sizes = {"num_heads": num_heads or None, "rotary_embedding_dim": dim}  # torch writes 0 for an omitted number of heads
    return op.RotaryEmbedding(x, cos, sin, position_ids, interleaved=int(interleaved), **sizes)


@table("onnx::Attention", since=23)
def attention(op: Builder, *args: Any) -> Any:
    """Lower ``torch.onnx.ops.attention`` to Attention, with its four outputs."""
    names = ("is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap", "softmax_precision")
    attributes = dict(zip(names, args[6:], strict=True))
    for name in ("kv_num_heads", "q_num_heads"):
        attributes[name] = attributes[name] or None  # torch writes 0 for an omitted number of heads
    return op.Attention(*args[:6], outputs=4, **attributes | {"is_causal": int(attributes["is_causal"])})


@table("_symbolic", "_symbolic_multi_out")
def symbolic(op: Builder, inputs: Sequence[Any], op_type: str, dtypes: Any, shape: Any, *rest: Any) -> Any:
    """Lower ``torch.onnx.ops.symbolic`` or ``symbolic_multi_out`` to its operator."""
    *encoded, _metadata_keys, _metadata_values, domain, version = rest
    attributes = _attributes(*encoded)
    if version is not None and domain and op.custom_opsets.setdefault(domain, version) != version:
        known = op.custom_opsets[domain]
        raise op.error(f"{domain}::{op_type} needs version {version} of its domain; the model imports version {known}")
    return op.domain(domain).call(op_type, *inputs, outputs=len(op.node.outputs), **attributes)


def _attributes(
    keys: Sequence[str],
    kinds: Sequence[str],
    ranges: Sequence[Sequence[int]],
    ints: Sequence[int],
    floats: Sequence[float],
    strings: Sequence[str],
) -> dict[str, Any]:
    """Decode the attributes of an operator.

    Each attribute has a kind and a range in the list of its element type.
    """
    elements: dict[str, Sequence[Any]] = {"i": ints, "f": floats, "s": strings}
    decoded: dict[str, Any] = {}
    for key, kind, (start, end) in zip(keys, kinds, ranges, strict=True):
        values = list(elements[kind[0]][start:end])
        decoded[key] = values if len(kind) == 2 else values[0]  # "is", "fs", "ss" are lists
    return decoded
