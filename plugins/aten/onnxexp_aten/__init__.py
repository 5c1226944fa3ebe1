"""onnxexp-plugin-aten: symbolics of torch's own operators, for opsets 9 to 26."""

from __future__ import annotations

from typing import Any

import onnxexp
from onnxexp_aten.complex import (
    fourier,  # noqa: F401
)
from onnxexp_aten.complex.complex_numbers import lower_complex
from onnxexp_aten.creation import (
    conversion,  # noqa: F401
    new_tensors,  # noqa: F401
)
from onnxexp_aten.indexing import (
    assignment,  # noqa: F401
    gather,  # noqa: F401
    scatter,  # noqa: F401
)
from onnxexp_aten.linalg import (
    cholesky_and_qr,  # noqa: F401
    einsum,  # noqa: F401
    grouped_matmul,  # noqa: F401
    matmul,  # noqa: F401
    norms,  # noqa: F401
    solve_and_lu,  # noqa: F401
    svd_and_eigh,  # noqa: F401
)
from onnxexp_aten.math import (
    arithmetic,  # noqa: F401
    comparison,  # noqa: F401
    differences,  # noqa: F401
    erf_and_bessel,  # noqa: F401
    frexp_and_nextafter,  # noqa: F401
    gamma,  # noqa: F401
    gcd,  # noqa: F401
    orthogonal_polynomials,  # noqa: F401
    powers,  # noqa: F401
    python_scalars,  # noqa: F401
    unary,  # noqa: F401
    xlogy,  # noqa: F401
)
from onnxexp_aten.nn import (
    activation,  # noqa: F401
    adaptive_pooling,  # noqa: F401
    attention,  # noqa: F401
    backward,  # noqa: F401
    classification_losses,  # noqa: F401
    convolution,  # noqa: F401
    ctc_loss,  # noqa: F401
    dropout,  # noqa: F401
    embedding_bag,  # noqa: F401
    fractional_max_pooling,  # noqa: F401
    grid_sample,  # noqa: F401
    im2col,  # noqa: F401
    losses,  # noqa: F401
    normalization,  # noqa: F401
    padding,  # noqa: F401
    pooling,  # noqa: F401
    softmax,  # noqa: F401
    transformer_layer,  # noqa: F401
    upsampling,  # noqa: F401
)
from onnxexp_aten.random import (
    distributions,  # noqa: F401
    rejection_loops,  # noqa: F401
)
from onnxexp_aten.reduction import (
    cumulative,  # noqa: F401
    reductions,  # noqa: F401
)
from onnxexp_aten.rnn import (
    layers,  # noqa: F401
    packed_sequences,  # noqa: F401
)
from onnxexp_aten.shape import (
    concatenation,  # noqa: F401
    rearranging,  # noqa: F401
    splitting,  # noqa: F401
    views,  # noqa: F401
)
from onnxexp_aten.statistics import (
    covariance,  # noqa: F401
    histograms,  # noqa: F401
    quantiles,  # noqa: F401
    sorting,  # noqa: F401
)
from onnxexp_aten.support.arguments import aten

__all__ = ["Aten", "aten", "plugin"]


class Aten:
    """The plugin: torch's own operators, and complex numbers as pairs of real ones."""

    symbolics = aten

    @onnxexp.hookimpl
    def lower_node(self, op: onnxexp.Builder, node: onnxexp.Node) -> Any:
        """Nodes with complex arguments or results, see `complexes`."""
        return lower_complex(op, node)


plugin = Aten()
