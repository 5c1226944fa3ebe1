"""What is known to fail at opset 20, by operator: the reason. Everything else must pass."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["KNOWN"]

_EXPORT = "torch.export cannot trace it: "
_RUN_TIME = _EXPORT + "it decides in Python by a value that only the run time knows"

KNOWN: Mapping[str, str] = MappingProxyType(
    {
        "hash_tensor": "it combines the bits of floating-point numbers",
        "histogramdd": "a list of tensors beside a tensor, of a number that depends on the arguments",
        "linalg.eig": "eigenvalues of matrices that are not symmetric",
        "linalg.eigvals": "eigenvalues of matrices that are not symmetric",
        "linalg.ldl_factor": "LAPACK's symmetric indefinite factorization",
        "linalg.ldl_factor_ex": "LAPACK's symmetric indefinite factorization",
        "linalg.ldl_solve": "LAPACK's symmetric indefinite factorization",
        "resize_": "a write that changes the size of a tensor",
        "resize_as_": "a write that changes the size of a tensor",
        "tensor_split": _RUN_TIME,
    }
)
