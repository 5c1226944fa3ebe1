"""onnxexp-plugin-aten: symbolics of torch's own operators, for opsets 9 to 26."""

from __future__ import annotations

from typing import Any

import onnxexp
from onnxexp_aten import (
    activation,  # noqa: F401
    adaptive,  # noqa: F401
    assignment,  # noqa: F401
    attention,  # noqa: F401
    classification,  # noqa: F401
    comparison,  # noqa: F401
    conversion,  # noqa: F401
    convolution,  # noqa: F401
    covariance,  # noqa: F401
    creation,  # noqa: F401
    ctc,  # noqa: F401
    cumulative,  # noqa: F401
    differences,  # noqa: F401
    draws,  # noqa: F401
    dropout,  # noqa: F401
    einsum,  # noqa: F401
    elementwise,  # noqa: F401
    embedding,  # noqa: F401
    entropy,  # noqa: F401
    floats,  # noqa: F401
    fourier,  # noqa: F401
    fractional,  # noqa: F401
    gamma,  # noqa: F401
    gradients,  # noqa: F401
    grouped,  # noqa: F401
    indexing,  # noqa: F401
    integers,  # noqa: F401
    joining,  # noqa: F401
    linalg,  # noqa: F401
    losses,  # noqa: F401
    normalization,  # noqa: F401
    norms,  # noqa: F401
    orthogonal,  # noqa: F401
    packing,  # noqa: F401
    padding,  # noqa: F401
    patches,  # noqa: F401
    polynomials,  # noqa: F401
    pooling,  # noqa: F401
    powers,  # noqa: F401
    quantiles,  # noqa: F401
    random,  # noqa: F401
    rearranging,  # noqa: F401
    recurrent,  # noqa: F401
    reduction,  # noqa: F401
    resampling,  # noqa: F401
    scalar,  # noqa: F401
    scatter,  # noqa: F401
    shape,  # noqa: F401
    softmax,  # noqa: F401
    solving,  # noqa: F401
    sorting,  # noqa: F401
    special,  # noqa: F401
    spectral,  # noqa: F401
    splitting,  # noqa: F401
    statistics,  # noqa: F401
    transformer,  # noqa: F401
    unary,  # noqa: F401
    vision,  # noqa: F401
)
from onnxexp_aten.common import aten
from onnxexp_aten.complexes import lower_complex

__all__ = ["Aten", "aten", "plugin"]


class Aten:
    """The plugin: torch's own operators, and complex numbers as pairs of real ones."""

    symbolics = aten

    @onnxexp.hookimpl
    def lower_node(self, op: onnxexp.Builder, node: onnxexp.Node) -> Any:
        """Nodes with complex arguments or results, see `complexes`."""
        return lower_complex(op, node)


plugin = Aten()
