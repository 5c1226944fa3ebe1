"""The known failures at opset 20, with the reason, by frontend and operator.

Everything else must pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["KNOWN", "known"]

_BOTH = {
    "hash_tensor": "it combines the bits of floating-point numbers",
    "linalg.eig": "eigenvalues of matrices that are not symmetric",
    "linalg.eigvals": "eigenvalues of matrices that are not symmetric",
    "linalg.ldl_factor": "LAPACK's symmetric indefinite factorization",
    "linalg.ldl_factor_ex": "LAPACK's symmetric indefinite factorization",
    "linalg.ldl_solve": "LAPACK's symmetric indefinite factorization",
    "resize_": "a write that changes the size of a tensor",
    "resize_as_": "a write that changes the size of a tensor",
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


def known(op: str, exporter: str) -> str:
    """Return the reason of an operator's known failure, "" without one."""
    return KNOWN["trace" if exporter.startswith("trace") else "export"].get(op, "")
