"""The names of ``torch.onnx._internal.jit_utils``."""

from __future__ import annotations

from onnxexp_torch_onnx.context import GraphContext, add_op_with_blocks

__all__ = ["GraphContext", "add_op_with_blocks", "is_aten", "is_onnx", "is_prim", "parse_node_kind"]


def parse_node_kind(kind: str) -> tuple[str, str]:
    """Split a node's kind, such as ``aten::relu``, into its domain and its name.

    Raises ValueError for a kind without a domain.
    """
    domain, separator, name = kind.partition("::")
    if not separator:
        raise ValueError(f"{kind!r} is no node's kind: write domain::name")
    return domain, name


def is_aten(domain: str) -> bool:
    return domain == "aten"


def is_prim(domain: str) -> bool:
    return domain == "prim"


def is_onnx(domain: str) -> bool:
    return domain == "onnx"
