"""The known failures at opset 20, with the reason, by frontend and operator.

Everything else must pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_EIGEN = "ONNX has no eigenvalues of matrices that are not symmetric"
_LDL = "ONNX has no factorization of symmetric indefinite matrices with LAPACK's pivots"
_BOTH = {
    "hash_tensor": "it combines the bits of floats, which no operator of ONNX reads before opset 26",
    "linalg.eig": _EIGEN,
    "linalg.eigvals": _EIGEN,
    "linalg.ldl_factor": _LDL,
    "linalg.ldl_factor_ex": _LDL,
    "linalg.ldl_solve": _LDL,
}
KNOWN: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "export": {
            **_BOTH,
            "tensor_split": "torch.export cannot trace it: it decides in Python by a value that only the run time knows",
        },
        "trace": {
            **_BOTH,
            "tensor_split": "where a tensor holds the number of the pieces, nobody knows how many outputs there are",
        },
    }
)
"""The reasons by frontend, then by operator."""

_BITS = "it writes the bits of floats among bytes, and ONNX has no operator for that"
_OUT = "torch's kernels differ in the scale of a quantized `out`"
_FOUR = "in a table of 4 bits, two numbers share a byte; a stored table works"

KNOWN_QUANTIZED: Mapping[str, str] = MappingProxyType(
    {
        **{f"aten::{name}.out": _OUT for name in ("adaptive_avg_pool3d", "cat", "hardsigmoid", "hardtanh", "index_select")},
        **{f"aten::{name}.out": _OUT for name in ("leaky_relu", "mean", "reflection_pad1d", "reflection_pad2d")},
        **{f"aten::{name}_out": _OUT for name in ("max.unary", "min.unary", "std.correction")},
        "aten::as_strided": "a view of the memory that a kernel of torch wrote, whose layout is not certain",
        "aten::equal": "its result is a Python bool that depends on the values",
        "aten::resize_": "a write that changes the size of a tensor",
        **{f"quantized::embedding_bag_{bits}_prepack": _BITS for bits in ("byte", "4bit", "2bit")},
        **{f"quantized::embedding_bag_{bits}_prepack_with_rowwise_min_max": _BITS for bits in ("byte", "4bit", "2bit")},
        "quantized::embedding_bag_prepack": _FOUR,
        "quantized::embedding_bag_unpack": _FOUR,
        "quantized::int4mm_packed_weight_cpu": "its weights are packed for the CPU at hand",
        "quantized::make_quantized_cell_params": "a layer of static weights, for which torch has no module",
        "quantized::make_quantized_cell_params_fp16": "weights that the model itself packs; a module of torch works",
    }
)
"""The reasons of operators on quantized tensors, through both frontends."""


def known(op: str, exporter: str) -> str:
    """Return the reason of an operator's known failure, "" without one."""
    if op in KNOWN_QUANTIZED:
        return KNOWN_QUANTIZED[op]
    return KNOWN["trace" if exporter.startswith("trace") else "export"].get(op, "")
