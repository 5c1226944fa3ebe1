"""onnxexp-plugin-aten: symbolics of torch's own operators, for opsets 9 to 26."""

from __future__ import annotations

from onnxexp_aten.common import aten as plugin

__all__ = ["plugin"]
