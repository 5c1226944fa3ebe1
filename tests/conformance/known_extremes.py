"""The differences from eager at the borders at opset 20, with their causes.

The borders are NaN, infinities, limits, 0-d and empty tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["KNOWN_EXTREMES"]

_NAN = "ONNX Runtime's ReduceMax, ReduceMin and MaxPool, and Scatter of maxima, do not return a NaN that eager returns"
_MODE = "eager counts NaN as equal to nothing, and returns the last"
_WEIGHTS = "a product with weights, of which some are 0: 0 times NaN or infinity is NaN, and eager leaves these elements out"
_LAPACK = "LAPACK takes other steps where a matrix has NaN, infinities or zeros on its diagonal"
_ORDER = "products and sums overflow in another order than in torch's kernel, so that one has infinity and the other NaN"
_INTEGERS = "ONNX Runtime computes these integers as floats, which have fewer digits and do not wrap around"
_SERIES = "series and asymptotic forms for arguments of usual sizes"
_UNSORTED = "the boundaries are not sorted any more, and eager's result is that of its search"
_DISTANCE = "eager computes distances as a product of matrices, which makes more of them NaN"
_PLACES = "among equal elements any index is right, and the largest integer counts as missing"

KNOWN_EXTREMES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("_segment_reduce.lengths", "_segment_reduce.offsets", "max.reduction_with_dim"), _NAN),
        **dict.fromkeys(("max_pool2d_with_indices_backward", "min.reduction_with_dim"), _NAN),
        **{f"nn.functional.adaptive_max_pool{axes}d": _NAN for axes in (1, 2, 3)},
        **{f"nn.functional.max_pool{axes}d": _NAN for axes in (1, 2, 3)},
        **{f"nn.functional.fractional_max_pool{axes}d": _NAN for axes in (2, 3)},
        "mode": _MODE,
        **{
            f"fft.{name}{axes}": _WEIGHTS for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for axes in ("", "2", "n")
        },
        **dict.fromkeys(("stft", "grid_sampler_2d", "grid_sampler_3d", "nn.functional.adaptive_avg_pool2d"), _WEIGHTS),
        **{f"nn.functional.interpolate.{mode}": _WEIGHTS for mode in ("area", "bilinear", "linear", "trilinear")},
        **{f"nn.functional.{name}": _WEIGHTS for name in ("embedding_bag", "grid_sample", "upsample_bilinear")},
        **dict.fromkeys(("geqrf", "lu", "lu_solve", "ormqr", "qr", "triangular_solve"), _LAPACK),
        **{f"linalg.{name}": _LAPACK for name in ("cholesky_ex", "cond", "eigh", "householder_product", "tensorsolve")},
        **{f"linalg.{name}": _LAPACK for name in ("lu", "lu_factor", "lu_factor_ex", "solve_triangular")},
        **{f"linalg.{name}": _LAPACK for name in ("eigvals", "lstsq", "lstsq.grad_oriented")},
        **dict.fromkeys(("addmm", "addmm.decomposed", "addbmm", "baddbmm", "bmm", "mm", "cross", "linalg.cross"), _ORDER),
        **dict.fromkeys(("var_mean", "std", "std.unbiased", "std_mean", "std_mean.unbiased", "linalg.vector_norm"), _ORDER),
        **dict.fromkeys(("_softmax_backward_data", "log_softmax.with_dtype"), _ORDER),
        **{f"native_{kind}_norm": _ORDER for kind in ("batch", "group", "layer")},
        **dict.fromkeys(("_native_batch_norm_legit", "_batch_norm_with_update"), _ORDER),
        **{f"nn.functional.{kind}_norm": _ORDER for kind in ("batch", "group")},
        **{f"nn.functional.conv{axes}d": _ORDER for axes in (1, 2, 3)},
        **{f"nn.functional.conv_transpose{axes}d": _ORDER for axes in (1, 2, 3)},
        **{f"nn.functional.avg_pool{axes}d": _INTEGERS for axes in (1, 2, 3)},
        **dict.fromkeys(("pow", "__rpow__", "einsum", "trace", "unravel_index"), _INTEGERS),
        **{f"polygamma.polygamma_n_{order}": _SERIES for order in range(5)},
        **dict.fromkeys(("igamma", "igammac", "special.airy_ai", "special.ndtri", "special.zeta"), _SERIES),
        "special.polygamma.special_polygamma_n_0": _SERIES,
        "bucketize": _UNSORTED,
        "cdist": _DISTANCE,
        **dict.fromkeys(("kthvalue", "topk"), _PLACES),
        "_chunk_cat": "eager itself ends the process on 0-d tensors",
        **{f"special.chebyshev_polynomial_{kind}": "a polynomial of a degree as large as an integer" for kind in "tu"},
        "nn.functional.ctc_loss": "the limits are no lengths of sequences",
        "histogramdd": "the numbers of bins must be known, and an empty tensor has none",
        "randint": "a range as long as all integers",
    }
)
"""The reasons by the operator's name in the database."""
