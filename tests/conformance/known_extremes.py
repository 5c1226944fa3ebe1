"""The differences from eager at the borders at opsets 20 and 9, with their causes.

The borders are NaN, infinities, limits, 0-d and empty tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_NAN = "ONNX Runtime's ReduceMax, ReduceMin and MaxPool do not return a NaN that eager returns"
_LOG_SOFTMAX = "ONNX Runtime's LogSoftmax does not return the NaN of an axis with an infinity"
_MODE = "eager counts NaN as equal to nothing, and returns the last"
_WEIGHTS = "the file multiplies by weights that may be 0, and 0 times NaN or infinity is NaN; eager skips these elements"
_GRID = "ONNX Runtime's GridSample takes coordinates that are NaN, infinite or too large for other places than eager's kernel"
_LAPACK = "LAPACK takes other steps where a matrix has NaN, infinities or zeros on its diagonal"
_ORDER = "products and sums overflow in another order than in torch's kernel, so that one has infinity and the other NaN"
_INTEGERS = "ONNX Runtime computes these integers as floats, which have fewer digits and do not wrap around"
_CONVERTED = "ONNX has this operator for floats only, which have fewer digits than integers and do not wrap around"
_SERIES = "a series for arguments of usual sizes"
_POLES = "the smallest number is a pole, at which eager's result depends on the rounding of a sine"
_OVERFLOW = "eager's own steps overflow to NaN, where the result is 0"
_UNSORTED = "the boundaries are not sorted any more, and eager's result is that of its search"
_DISTANCE = "eager computes distances as a product of matrices, which makes more of them NaN"
_DIGITS = "ONNX's Pad, TopK and Clip take floats only before opset 11 or 12: integers above 2**53 lose digits"
_DEGREE = "a polynomial of a degree as large as an integer"

KNOWN_EXTREMES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("_segment_reduce.lengths", "_segment_reduce.offsets", "max.reduction_with_dim"), _NAN),
        **dict.fromkeys(("max_pool2d_with_indices_backward", "min.reduction_with_dim", "nn.functional.max_pool1d"), _NAN),
        **{f"nn.functional.adaptive_max_pool{axes}d": _NAN for axes in (1, 2)},
        **{f"nn.functional.max_pool{axes}d": f"{_NAN}; {_CONVERTED}" for axes in (2, 3)},
        **{f"nn.functional.fractional_max_pool{axes}d": _NAN for axes in (2, 3)},
        "mode": _MODE,
        "log_softmax.with_dtype": _LOG_SOFTMAX,
        **{f"fft.{name}{axes}": _WEIGHTS for name in ("fft", "ifft", "rfft", "ihfft") for axes in ("", "2", "n")},
        **{f"fft.{name}{axes}": _WEIGHTS for name in ("irfft", "hfft") for axes in "2n"},
        **dict.fromkeys(("stft", "nn.functional.adaptive_avg_pool2d"), _WEIGHTS),
        **{f"nn.functional.interpolate.{mode}": _WEIGHTS for mode in ("area", "bilinear", "linear", "trilinear")},
        **{f"nn.functional.{name}": _WEIGHTS for name in ("embedding_bag", "upsample_bilinear")},
        **dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d", "nn.functional.grid_sample"), _GRID),
        **dict.fromkeys(("geqrf", "lu", "lu_solve", "triangular_solve"), _LAPACK),
        **{f"linalg.{name}": _LAPACK for name in ("cholesky_ex", "cond", "eigh", "householder_product", "tensorsolve")},
        **{f"linalg.{name}": _LAPACK for name in ("lu", "lu_factor", "lu_factor_ex", "solve_triangular")},
        **dict.fromkeys(("addmm", "addmm.decomposed", "mm", "cross", "linalg.cross"), _ORDER),
        **dict.fromkeys(("var_mean", "std", "std.unbiased", "std_mean", "std_mean.unbiased", "linalg.vector_norm"), _ORDER),
        "masked.norm": _ORDER,
        **dict.fromkeys(("_softmax_backward_data", "native_layer_norm", "nn.functional.instance_norm"), _ORDER),
        "nn.functional.scaled_dot_product_attention": _ORDER,
        **{f"nn.functional.conv{axes}d": _CONVERTED for axes in (2, 3)},
        **{f"nn.functional.conv_transpose{axes}d": _CONVERTED for axes in (2, 3)},
        **{f"nn.functional.{name}1d": f"{_ORDER}; {_CONVERTED}" for name in ("conv", "conv_transpose")},
        **{f"nn.functional.avg_pool{axes}d": _CONVERTED for axes in (1, 2, 3)},
        **dict.fromkeys(("addbmm", "einsum", "trace"), _INTEGERS),
        "unravel_index": "an index outside of the shape: a quotient overflows",
        **{f"polygamma.polygamma_n_{order}": _POLES for order in range(5)},
        "special.polygamma.special_polygamma_n_0": _POLES,
        **dict.fromkeys(("igamma", "igammac"), _SERIES),
        **dict.fromkeys(("special.airy_ai", "special.zeta"), _OVERFLOW),
        "bucketize": _UNSORTED,
        "cdist": _DISTANCE,
        **dict.fromkeys(("_chunk_cat", "linalg.eigvals"), "eager itself ends the process"),
        **{f"special.{name}chebyshev_polynomial_{kind}": _DEGREE for name in ("", "shifted_") for kind in "tuvw"},
        **{f"special.{name}": _DEGREE for name in ("hermite_polynomial_h", "hermite_polynomial_he")},
        **{f"special.{name}": _DEGREE for name in ("laguerre_polynomial_l", "legendre_polynomial_p")},
        "nn.functional.ctc_loss": "the limits are no lengths of sequences",
        "histogramdd": "the numbers of bins must be known, and an empty tensor has none",
    }
)
"""The reasons by the operator's name in the database, at opset 20 and before."""

KNOWN_AT_9: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("block_diag", "constant_pad_nd"), _DIGITS),
        **{f"nn.functional.pad.{mode}": _DIGITS for mode in ("constant", "reflect", "replicate")},
        **dict.fromkeys(("sort", "msort", "topk", "median", "nanmedian"), _DIGITS),
        "_unsafe_masked_index_put_accumulate": _DIGITS,
        **{f"scatter_reduce.{name}": _NAN for name in ("amax", "amin")},
        "nn.functional.layer_norm": _ORDER,
    }
)
"""The further reasons at opset 9."""
