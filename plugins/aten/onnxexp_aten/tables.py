"""The tables of all modules, merged into the two that the plugin registers."""

from __future__ import annotations

from onnxexp import SymbolicTable
from onnxexp_aten.complex import complex_numbers, fourier, inverse_stft
from onnxexp_aten.creation import conversion, filled_tensors, ranges, triangles_and_one_hot, windows
from onnxexp_aten.indexing import assignment, gather, scatter
from onnxexp_aten.linalg import cholesky_and_qr, einsum, matmul, norms, pseudo_inverse, solve_and_lu, svd_and_eigh
from onnxexp_aten.math import (
    arithmetic,
    comparison_and_bitwise,
    erf_and_bessel,
    functions_of_two,
    gamma,
    orthogonal_polynomials,
    powers,
    python_scalars,
    unary,
)
from onnxexp_aten.nn import (
    activation,
    adaptive_pooling,
    attention,
    backward,
    classification_losses,
    convolution,
    dropout,
    embedding_bag,
    grid_sample,
    im2col,
    losses,
    normalization,
    pooling,
    transformer_layer,
    upsampling,
)
from onnxexp_aten.random import distributions
from onnxexp_aten.reduction import cumulative, differences, reductions
from onnxexp_aten.rnn import layers, packed_sequences
from onnxexp_aten.shape import (
    concat_and_split,
    diagonals,
    flip_roll_unfold,
    padding,
    pixel_shuffle,
    repeat_interleave,
    views_and_slices,
)
from onnxexp_aten.statistics import covariance, histograms, nonzero_and_searchsorted, quantiles, segment_reduce, sorting

aten = SymbolicTable("aten")
"""The symbolics of torch's own operators."""

aten.include(
    # complex
    fourier.table,
    # creation
    conversion.table,
    filled_tensors.table,
    ranges.table,
    windows.table,
    triangles_and_one_hot.table,
    # indexing
    assignment.table,
    gather.table,
    scatter.table,
    # linalg
    cholesky_and_qr.table,
    einsum.table,
    matmul.table,
    norms.table,
    pseudo_inverse.table,
    solve_and_lu.table,
    svd_and_eigh.table,
    # math
    arithmetic.table,
    comparison_and_bitwise.table,
    differences.table,
    erf_and_bessel.table,
    functions_of_two.table,
    gamma.table,
    orthogonal_polynomials.table,
    powers.table,
    python_scalars.table,
    unary.table,
    # nn
    activation.table,
    adaptive_pooling.table,
    attention.table,
    backward.table,
    classification_losses.table,
    convolution.table,
    dropout.table,
    embedding_bag.table,
    grid_sample.table,
    im2col.table,
    losses.table,
    normalization.table,
    padding.table,
    pooling.table,
    transformer_layer.table,
    upsampling.table,
    # random
    distributions.table,
    # reduction
    cumulative.table,
    reductions.table,
    # rnn
    layers.table,
    packed_sequences.table,
    # shape
    concat_and_split.table,
    diagonals.table,
    flip_roll_unfold.table,
    pixel_shuffle.table,
    repeat_interleave.table,
    views_and_slices.table,
    # statistics
    covariance.table,
    histograms.table,
    quantiles.table,
    nonzero_and_searchsorted.table,
    segment_reduce.table,
    sorting.table,
)

complex_aten = SymbolicTable("aten")
"""The symbolics of operators with complex arguments or results."""

complex_aten.include(complex_numbers.complex_table, fourier.complex_table, inverse_stft.complex_table)
