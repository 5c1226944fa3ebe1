"""One or more calls of every ONNX operator, written for its newest schema.

A call is a dict from the names of inputs and attributes to what is given: `S(2, 3)` is an input of that shape that is known only
at run time, `Dtype("T2")` the dtype that the type variable T2 has this time, anything else a Python constant. Required inputs
that a call does not name are `S(2, 3)`. `pins` fixes type variables to a dtype, `ties` sets one to the dtype of another, and
`only` lists the meaningful dtypes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch


class S(tuple[int, ...]):
    """The shape of an input that is known only at run time."""

    def __new__(cls, *sizes: int) -> S:
        return super().__new__(cls, sizes)


@dataclasses.dataclass(frozen=True)
class Dtype:
    variable: str


@dataclasses.dataclass(frozen=True, eq=False)
class OpCall:
    """One call; `inputs` are those of a variadic operator."""

    given: Mapping[str, Any]
    inputs: Sequence[Any] = ()
    outputs: int | None = None
    pins: Mapping[str, torch.dtype] = dataclasses.field(default_factory=dict)
    ties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    only: frozenset[torch.dtype] | None = None


def call(
    *inputs: Any,
    outputs: int | None = None,
    pins: Mapping[str, torch.dtype] | None = None,
    ties: Mapping[str, str] | None = None,
    only: Sequence[torch.dtype] | None = None,
    **given: Any,
) -> OpCall:
    return OpCall(given, inputs, outputs, pins or {}, ties or {}, frozenset(only) if only else None)


def reductions(*names: str) -> dict[str, list[OpCall]]:
    """Build calls of reductions: axes as a constant, as an input, and left out."""
    calls = [call(), call(axes=[1]), call(axes=[0, -1], keepdims=0), call(axes=S(1)), call(noop_with_empty_axes=1)]
    return {f"Reduce{name}": calls for name in names}


CONV = {"group": 2, "kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1], "dilations": [1, 2]}
ACTIVATED = {"activations": ["LeakyRelu"], "activation_alpha": [0.1], "activation_beta": [0.0], "clip": 3.0}
IMAGE, KERNEL = S(1, 2, 6, 6), S(2, 2, 3, 3)
POOL = {"X": IMAGE, "kernel_shape": [2, 2]}
QKV = {"Q": S(1, 2, 4, 8), "K": S(1, 2, 6, 8), "V": S(1, 2, 6, 8)}
RNN = {"X": S(5, 2, 3), "hidden_size": 4}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def recurrent(gates: int, *, cell: bool = False) -> list[OpCall]:
    weights = {"W": S(1, gates * 4, 3), "R": S(1, gates * 4, 4)}
    both = {"W": S(2, gates * 4, 3), "R": S(2, gates * 4, 4), "direction": "bidirectional"}
    state = {"initial_c": S(2, 2, 4)} if cell else {}
    count = 3 if cell else 2
    return [
        call(**RNN, **weights, outputs=count),
        call(**RNN, **both, B=S(2, gates * 8), sequence_lens=S(2), initial_h=S(2, 2, 4), outputs=count, **state),
        call(**RNN, **weights, layout=0, outputs=count),
        call(X=S(2, 5, 3), hidden_size=4, **weights, layout=1, outputs=count),
    ]


CALLS: dict[str, list[OpCall]] = {
    **reductions("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"),
    "AffineGrid": [call(theta=S(1, 2, 3), size=[1, 2, 4, 4]), call(theta=S(1, 3, 4), size=S(5), align_corners=1)],
    "ArgMax": [call(axis=1), call(axis=-1, keepdims=0), call(axis=1, select_last_index=1)],
    "ArgMin": [call(axis=1), call(axis=-1, keepdims=0), call(axis=1, select_last_index=1)],
    "Attention": [
        call(**QKV),
        call(**QKV, attn_mask=S(4, 6), scale=0.5),
        call(Q=S(1, 4, 16), K=S(1, 6, 16), V=S(1, 6, 16), q_num_heads=2, kv_num_heads=2, is_causal=1),
        call(**QKV, nonpad_kv_seqlen=S(1)),
        call(**QKV, past_key=S(1, 2, 3, 8), past_value=S(1, 2, 3, 8), softcap=2.0, qk_matmul_output_mode=1, outputs=4),
        call(**QKV, left_window_size=2, right_window_size=0, softmax_precision=1, is_causal=1),
    ],
    "AveragePool": [
        call(**POOL),
        call(**POOL, strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
        call(**POOL, ceil_mode=1),
        call(**POOL, dilations=[2, 2]),
        call(**POOL, auto_pad="SAME_LOWER"),
    ],
    "BatchNormalization": [
        call(X=IMAGE, scale=S(2), B=S(2), input_mean=S(2), input_var=S(2)),
        call(X=IMAGE, scale=S(2), B=S(2), input_mean=S(2), input_var=S(2), epsilon=1e-3, momentum=0.5, training_mode=0),
        call(X=IMAGE, scale=S(2), B=S(2), input_mean=S(2), input_var=S(2), training_mode=1, outputs=3),
    ],
    "Bernoulli": [call(), call(dtype=Dtype("T2"), seed=1.0)],
    "BitCast": [call(to=Dtype("T2"), pins={"T1": torch.int32}, only=[torch.float32, torch.int32, torch.uint32])],
    "BitShift": [call(direction="LEFT"), call(direction="RIGHT", Y=1)],
    "BlackmanWindow": [call(size=8), call(size=S(), periodic=0, output_datatype=Dtype("T2"))],
    "HammingWindow": [call(size=8), call(size=S(), periodic=0, output_datatype=Dtype("T2"))],
    "HannWindow": [call(size=8), call(size=S(), periodic=0, output_datatype=Dtype("T2"))],
    "Cast": [
        call(to=Dtype("T2")),
        call(to=Dtype("T2"), saturate=1),
        call(to=torch.float8_e4m3fn, saturate=0),
        call(to=torch.float8_e8m0fnu, round_mode="down"),
    ],
    "CastLike": [
        call(),
        call(pins={"T2": torch.float8_e4m3fn}, saturate=0),
        call(pins={"T2": torch.float8_e8m0fnu}, round_mode="nearest"),
    ],
    "Celu": [call(), call(alpha=2.0)],
    "CausalConvWithState": [
        call(input=S(1, 2, 5), weight=S(2, 1, 3), outputs=2),
        call(input=S(1, 2, 5), weight=S(2, 1, 3), bias=S(2), past_state=S(1, 2, 2), activation="silu", outputs=2),
    ],
    "CenterCropPad": [call(shape=[4, 2]), call(shape=S(2)), call(shape=[1], axes=[1])],
    "Clip": [call(min=0, max=1), call(min=S()), call(min=S(), max=S()), call(max=1), call()],
    "Col2Im": [
        call(input=S(1, 12, 9), image_shape=[4, 4], block_shape=[2, 2]),
        call(input=S(1, 8, 4), image_shape=S(2), block_shape=S(2)),
        call(input=S(1, 8, 9), image_shape=[5, 5], block_shape=[2, 2], strides=[2, 2], pads=[1, 1, 0, 0], dilations=[1, 1]),
    ],
    "Compress": [call(condition=S(6)), call(condition=S(2), axis=0)],
    "Concat": [call(S(2, 3), S(2, 3), axis=1), call(S(2, 3), axis=0), call(S(2, 3), S(2, 3), axis=-1)],
    "Constant": [
        call(value=torch.ones(2)),
        call(value=torch.ones(2, dtype=torch.bfloat16)),
        call(value=torch.ones(2).to(torch.float8_e5m2)),
        call(value_float=1.0),
        call(value_ints=[1, 2]),
        call(value_int=3),
        call(value_floats=[1.0, 2.0]),
        call(value_string="a"),
        call(value_strings=["a", "b"]),
    ],
    "ConstantOfShape": [
        call(input=[2, 3]),
        call(input=S(2), value=torch.tensor([1])),
        call(input=S(2), value=torch.ones(1).bfloat16()),
    ],
    "Conv": [
        call(X=IMAGE, W=KERNEL),
        call(X=IMAGE, W=KERNEL, B=S(2), strides=[2, 2], pads=[1, 1, 1, 1], dilations=[2, 2]),
        call(X=IMAGE, W=S(2, 1, 3, 3), group=2, kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
    ],
    "ConvInteger": [
        call(x=IMAGE, w=KERNEL),
        call(x=IMAGE, w=KERNEL, x_zero_point=S(), w_zero_point=S()),
        call(x=IMAGE, w=S(2, 1, 3, 3), **CONV),
    ],
    "ConvTranspose": [
        call(X=IMAGE, W=KERNEL),
        call(X=IMAGE, W=KERNEL, B=S(2), strides=[2, 2], output_padding=[1, 1]),
        call(X=IMAGE, W=S(2, 1, 3, 3), **CONV),
        call(X=IMAGE, W=KERNEL, output_shape=[12, 12], strides=[2, 2], auto_pad="SAME_UPPER"),
    ],
    "CumProd": [call(axis=0), call(axis=S(), reverse=1, exclusive=1)],
    "CumSum": [call(axis=0), call(axis=S(), reverse=1, exclusive=1)],
    "DFT": [
        call(input=S(1, 8, 1)),
        call(input=S(1, 8, 1), axis=1, onesided=1),
        call(input=S(1, 8, 2), dft_length=S(), axis=S(), inverse=1),
        call(input=S(1, 8, 2), dft_length=8, axis=-2),
    ],
    "DeformConv": [
        call(X=IMAGE, W=KERNEL, offset=S(1, 18, 4, 4)),
        call(X=IMAGE, W=KERNEL, offset=S(1, 18, 4, 4), B=S(2), mask=S(1, 9, 4, 4)),
        call(X=IMAGE, W=S(2, 1, 3, 3), offset=S(1, 18, 4, 4), offset_group=1, group=2, kernel_shape=[3, 3]),
        call(X=IMAGE, W=KERNEL, offset=S(1, 18, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1], dilations=[1, 1]),
    ],
    "DepthToSpace": [call(input=S(1, 8, 2, 3), blocksize=2), call(input=S(1, 8, 2, 3), blocksize=2, mode="CRD")],
    "DequantizeLinear": [
        call(x_scale=S(), pins={"T2": torch.float32}),
        call(x_scale=S(), x_zero_point=S(), pins={"T2": torch.float16}),
        call(x_scale=S(3), x_zero_point=S(3), axis=1, pins={"T2": torch.bfloat16}),
        call(x_scale=S(2, 1), axis=1, block_size=3, pins={"T2": torch.float32}),
        call(x_scale=S(), output_dtype=Dtype("T3")),
    ],
    "Det": [call(X=S(2, 3, 3))],
    "Dropout": [
        call(),
        call(ratio=0.5),
        call(ratio=S(), training_mode=S(), outputs=2),
        call(ratio=0.5, training_mode=True, seed=1),
    ],
    "Einsum": [call(S(2, 3), S(3, 4), equation="ij,jk->ik")],
    "Elu": [call(), call(alpha=2.0)],
    "Expand": [call(shape=[4, 2, 3]), call(shape=S(2))],
    "EyeLike": [call(), call(dtype=Dtype("T2"), k=1)],
    "Flatten": [call(), call(input=S(2, 3, 4), axis=3), call(input=S(2, 3, 4), axis=2)],
    "GRU": [
        *recurrent(3),
        call(**RNN, W=S(1, 12, 3), R=S(1, 12, 4), **{**ACTIVATED, "activations": ["LeakyRelu", "Tanh"]}),
        call(**RNN, W=S(1, 12, 3), R=S(1, 12, 4), linear_before_reset=1, outputs=2),
    ],
    "Gather": [call(indices=[0, 1], axis=1), call(indices=S(4)), call(indices=0)],
    "GatherElements": [call(indices=S(2, 2), axis=1)],
    "GatherND": [call(indices=S(4, 2)), call(indices=S(2, 1), batch_dims=1)],
    "Gelu": [call(), call(approximate="tanh")],
    "Gemm": [call(A=S(2, 3), B=S(3, 4)), call(A=S(3, 2), B=S(4, 3), C=S(4), transA=1, transB=1, alpha=0.5, beta=2.0)],
    "GlobalAveragePool": [call(X=IMAGE)],
    "GlobalLpPool": [call(X=IMAGE), call(X=IMAGE, p=1)],
    "GlobalMaxPool": [call(X=IMAGE)],
    "GridSample": [
        call(X=IMAGE, grid=S(1, 4, 4, 2)),
        call(X=IMAGE, grid=S(1, 4, 4, 2), align_corners=1, padding_mode="border"),
        call(X=S(1, 2, 3, 4, 5), grid=S(1, 2, 2, 2, 3)),
        call(X=IMAGE, grid=S(1, 4, 4, 2), mode="nearest"),
    ],
    "GroupNormalization": [
        call(X=IMAGE, scale=S(2), bias=S(2), num_groups=2),
        call(X=IMAGE, scale=S(2), bias=S(2), num_groups=2, stash_type=1, epsilon=1e-3),
    ],
    "HardSigmoid": [call(), call(alpha=1 / 6, beta=0.5)],
    "Hardmax": [call(), call(axis=1)],
    "ImageDecoder": [call(encoded_stream=S(100), pixel_format="Grayscale")],
    "InstanceNormalization": [call(input=IMAGE, scale=S(2), B=S(2)), call(input=IMAGE, scale=S(2), B=S(2), epsilon=1e-3)],
    "IsInf": [call(), call(detect_negative=0), call(detect_positive=0)],
    "LRN": [call(X=IMAGE, size=3), call(X=IMAGE, size=3, alpha=1e-3, beta=0.5, bias=2.0)],
    "LSTM": [
        *recurrent(4, cell=True),
        call(**RNN, W=S(1, 16, 3), R=S(1, 16, 4), B=S(1, 32), P=S(1, 12), clip=3.0, input_forget=1, outputs=3),
        call(**RNN, W=S(1, 16, 3), R=S(1, 16, 4), **{**ACTIVATED, "activations": ["LeakyRelu", "Tanh", "Tanh"]}, outputs=1),
    ],
    "LayerNormalization": [
        call(Scale=S(3)),
        call(Scale=S(3), B=S(3), axis=1, epsilon=1e-3, outputs=3),
        call(Scale=S(3), stash_type=1),
    ],
    "LeakyRelu": [call(), call(alpha=0.2)],
    "LpNormalization": [call(), call(axis=0, p=1)],
    "LinearAttention": [
        call(
            query=S(1, 4, 16),
            key=S(1, 4, 16),
            value=S(1, 4, 16),
            q_num_heads=2,
            kv_num_heads=2,
            update_rule="linear",
            outputs=2,
            pins={"S": torch.float32},
        ),
        call(
            query=S(1, 4, 16),
            key=S(1, 4, 16),
            value=S(1, 4, 16),
            past_state=S(1, 2, 8, 8),
            decay=S(1, 4, 2),
            beta=S(1, 4, 2),
            q_num_heads=2,
            kv_num_heads=2,
            chunk_size=32,
            scale=0.5,
            outputs=2,
        ),
    ],
    "LpPool": [
        call(**POOL),
        call(**POOL, p=3, strides=[2, 2]),
        call(**POOL, ceil_mode=1),
        call(**POOL, dilations=[2, 2]),
        call(**POOL, pads=[1, 0, 1, 0]),
        call(**POOL, auto_pad="VALID"),
    ],
    "MatMul": [call(A=S(4, 2, 3), B=S(3, 5))],
    "MatMulInteger": [call(A=S(2, 3), B=S(3, 4)), call(A=S(2, 3), B=S(3, 4), a_zero_point=S(), b_zero_point=S())],
    "Max": [call(S(2, 3), S(3)), call(S(2, 3)), call(S(2, 3), 1)],
    "Min": [call(S(2, 3), S(3)), call(S(2, 3)), call(S(2, 3), 1)],
    "Mean": [call(S(2, 3), S(3), S(2, 1))],
    "Sum": [call(S(2, 3), S(3), S(2, 1))],
    "MaxPool": [
        call(**POOL),
        call(**POOL, outputs=2),
        call(**POOL, ceil_mode=1, strides=[2, 2]),
        call(**POOL, dilations=[2, 2], outputs=2),
        call(**POOL, storage_order=1, outputs=2),
        call(**POOL, pads=[1, 0, 1, 0]),
        call(**POOL, auto_pad="SAME_UPPER"),
    ],
    "MaxRoiPool": [
        call(X=IMAGE, rois=S(3, 5), pooled_shape=[2, 2]),
        call(X=IMAGE, rois=S(3, 5), pooled_shape=[2, 2], spatial_scale=0.5),
    ],
    "MaxUnpool": [
        call(X=S(1, 2, 3, 3), I=S(1, 2, 3, 3), kernel_shape=[2, 2], strides=[2, 2]),
        call(X=S(1, 2, 3, 3), I=S(1, 2, 3, 3), output_shape=S(4), kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0]),
    ],
    # onnx's inference of its function's body fails without axes, and for any other dtype
    "MeanVarianceNormalization": [call(X=IMAGE, axes=[1], only=[torch.float32])],
    "MelWeightMatrix": [
        call(num_mel_bins=4, dft_length=16, sample_rate=8000, lower_edge_hertz=0.0, upper_edge_hertz=4000.0),
        call(
            num_mel_bins=S(),
            dft_length=S(),
            sample_rate=S(),
            lower_edge_hertz=S(),
            upper_edge_hertz=S(),
            output_datatype=Dtype("T3"),
        ),
    ],
    "Mod": [call(), call(fmod=1)],
    "Multinomial": [call(sample_size=4), call(sample_size=4, dtype=Dtype("T2"), seed=1.0)],
    "NegativeLogLikelihoodLoss": [
        call(input=S(2, 3), target=S(2)),
        call(input=S(2, 3, 4), target=S(2, 4), weight=S(3), reduction="none", ignore_index=1),
    ],
    "NonMaxSuppression": [
        call(boxes=S(1, 6, 4), scores=S(1, 2, 6)),
        call(
            boxes=S(1, 6, 4),
            scores=S(1, 2, 6),
            max_output_boxes_per_class=3,
            iou_threshold=0.5,
            score_threshold=S(1),
            center_point_box=1,
        ),
    ],
    "OneHot": [call(indices=S(4), depth=3, values=S(2)), call(indices=S(4), depth=S(), values=S(2), axis=0)],
    "PRelu": [call(slope=S(3)), call(X=IMAGE, slope=S(2, 1, 1))],
    "Pad": [
        call(pads=[0, 1, 0, 1]),
        call(pads=[0, 1, 0, 1], constant_value=1),
        call(pads=[0, 1, 0, 1], mode="reflect"),
        call(pads=S(4)),
        call(pads=[1, 1], axes=[1]),
        call(pads=[0, 1, 0, 1], constant_value=S()),
    ],
    "Pow": [call(), call(Y=2), call(Y=S())],
    "QLinearConv": [
        call(x=IMAGE, x_scale=S(), x_zero_point=S(), w=KERNEL, w_scale=S(), w_zero_point=S(), y_scale=S(), y_zero_point=S()),
        call(
            x=IMAGE,
            x_scale=S(),
            x_zero_point=S(),
            w=KERNEL,
            w_scale=S(2),
            w_zero_point=S(2),
            y_scale=S(),
            y_zero_point=S(),
            B=S(2),
        ),
        call(
            x=IMAGE,
            x_scale=S(),
            x_zero_point=S(),
            w=S(2, 1, 3, 3),
            w_scale=S(),
            w_zero_point=S(),
            y_scale=S(),
            y_zero_point=S(),
            **CONV,
        ),
    ],
    "QLinearMatMul": [
        call(a=S(2, 3), a_scale=S(), a_zero_point=S(), b=S(3, 4), b_scale=S(), b_zero_point=S(), y_scale=S(), y_zero_point=S())
    ],
    "QuantizeLinear": [
        call(y_scale=S()),
        call(y_scale=S(), y_zero_point=S()),
        call(y_scale=S(3), y_zero_point=S(3), axis=1),
        call(y_scale=S(2, 1), axis=1, block_size=3),
        call(y_scale=S(), output_dtype=Dtype("T3"), saturate=1),
        call(y_scale=S(), precision=1),
    ],
    # its schema gives Y the dtype of the scale, its inference that of X
    "RMSNormalization": [
        call(scale=S(3), ties={"V": "T"}),
        call(scale=S(3), axis=1, epsilon=1e-6, stash_type=1, ties={"V": "T"}),
    ],
    "RNN": [*recurrent(1), call(**RNN, W=S(1, 4, 3), R=S(1, 4, 4), **ACTIVATED)],
    "RandomNormal": [call(shape=[2, 3]), call(shape=[2, 3], dtype=Dtype("T"), mean=1.0, scale=2.0, seed=1.0)],
    "RandomNormalLike": [call(only=FLOATS), call(dtype=Dtype("T2"), mean=1.0, scale=2.0, seed=1.0)],
    "RandomUniform": [call(shape=[2, 3]), call(shape=[2, 3], dtype=Dtype("T"), high=2.0, low=-1.0, seed=1.0)],
    "RandomUniformLike": [call(only=FLOATS), call(dtype=Dtype("T2"), high=2.0, low=0.5, seed=1.0)],
    "Range": [
        call(start=0, limit=S(), delta=1),
        call(start=S(), limit=S(), delta=S()),
        call(start=0, limit=6, delta=2),
        call(start=S(), limit=S(), delta=S(), stash_type=1),
    ],
    "Reshape": [call(shape=[3, -1]), call(shape=S(1)), call(shape=[0, -1], allowzero=0), call(shape=[3, 2], allowzero=1)],
    "Resize": [
        call(X=IMAGE, scales=[1.0, 1.0, 2.0, 2.0], mode="nearest"),
        call(X=IMAGE, scales=S(4), mode="linear"),
        call(X=IMAGE, sizes=[1, 2, 12, 12], mode="linear", coordinate_transformation_mode="align_corners"),
        call(X=IMAGE, sizes=S(4), mode="cubic", cubic_coeff_a=-0.75),
        call(X=IMAGE, sizes=[12, 12], axes=[2, 3]),
        call(X=IMAGE, scales=[1.0, 1.0, 0.5, 0.5], mode="linear", antialias=1),
        call(X=IMAGE, roi=S(8), sizes=[1, 2, 3, 3], coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=1.0),
        call(X=IMAGE, scales=[1.0, 1.0, 2.0, 2.0], mode="cubic", exclude_outside=1),
        call(X=IMAGE, scales=[1.0, 1.0, 2.0, 2.0], nearest_mode="floor"),
        call(X=IMAGE, sizes=[3, 4], axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    ],
    "ReverseSequence": [
        call(input=S(4, 2, 3), sequence_lens=S(2)),
        call(input=S(2, 4), sequence_lens=S(2), batch_axis=0, time_axis=1),
    ],
    "RoiAlign": [
        call(X=IMAGE, rois=S(3, 4), batch_indices=S(3)),
        call(
            X=IMAGE,
            rois=S(3, 4),
            batch_indices=[0, 0, 0],
            output_height=2,
            output_width=2,
            sampling_ratio=2,
            spatial_scale=0.5,
            mode="max",
        ),
        call(X=IMAGE, rois=S(3, 4), batch_indices=S(3), coordinate_transformation_mode="output_half_pixel"),
    ],
    "RotaryEmbedding": [
        call(X=S(1, 2, 4, 8), cos_cache=S(1, 4, 4), sin_cache=S(1, 4, 4)),
        call(X=S(1, 4, 16), cos_cache=S(10, 4), sin_cache=S(10, 4), position_ids=S(1, 4), num_heads=2, interleaved=1),
        call(X=S(1, 2, 4, 8), cos_cache=S(1, 4, 2), sin_cache=S(1, 4, 2), rotary_embedding_dim=4),
    ],
    "STFT": [
        call(signal=S(1, 16, 1), frame_step=4, frame_length=8),
        call(signal=S(1, 16, 1), frame_step=4, window=S(8), onesided=0),
    ],
    "Scatter": [call(indices=S(2, 2), updates=S(2, 2), axis=1)],
    "ScatterElements": [call(indices=S(2, 2), updates=S(2, 2), axis=1), call(indices=S(2, 2), updates=S(2, 2), reduction="add")],
    "ScatterND": [call(indices=S(4, 1), updates=S(4, 3)), call(indices=S(4, 1), updates=S(4, 3), reduction="mul")],
    "Selu": [call(), call(alpha=1.5, gamma=1.2)],
    "Shrink": [call(), call(bias=0.1, lambd=1.0)],
    "ThresholdedRelu": [call(), call(alpha=2.0)],
    "Shape": [call(), call(start=1), call(end=-1), call(start=0)],
    "Slice": [
        call(starts=[0], ends=[1]),
        call(starts=[0], ends=[2], axes=[1]),
        call(starts=[-1], ends=[-4], axes=[1], steps=[-1]),
        call(starts=S(1), ends=S(1), axes=[1]),
        call(starts=[0, S()], ends=[1, 2]),
    ],
    "Softmax": [call(), call(axis=1)],
    "LogSoftmax": [call(), call(axis=1)],
    "SoftmaxCrossEntropyLoss": [
        call(scores=S(2, 3), labels=S(2)),
        call(scores=S(2, 3, 4), labels=S(2, 4), weights=S(3), reduction="none", ignore_index=1, outputs=2),
    ],
    "SpaceToDepth": [call(input=S(1, 2, 4, 6), blocksize=2), call(input=S(1, 2, 4, 6), blocksize=2, mode="DCR")],
    "Split": [
        call(axis=1, outputs=3),
        call(split=[1, 2], axis=1, outputs=2),
        call(split=S(2), outputs=2),
        call(num_outputs=2, outputs=2),
    ],
    "Squeeze": [call(data=S(1, 3, 1)), call(data=S(1, 3, 1), axes=[0, 2]), call(data=S(1, 3, 1), axes=S(1))],
    "Swish": [call(), call(alpha=2.0)],
    "SwiGLU": [call(), call(alpha=2.0)],
    "TensorScatter": [
        call(past_cache=S(1, 2, 8, 4), update=S(1, 2, 1, 4)),
        call(past_cache=S(1, 2, 8, 4), update=S(1, 2, 1, 4), write_indices=S(1), mode="circular", axis=2),
    ],
    "TfIdfVectorizer": [
        call(
            mode="TF",
            ngram_indexes=[0, 1],
            ngram_counts=[0],
            pool_int64s=[2, 3],
            max_skip_count=0,
            min_gram_length=1,
            max_gram_length=1,
            weights=[1.0, 2.0],
        )
    ],
    "Tile": [call(repeats=[2, 1]), call(repeats=S(2))],
    "TopK": [call(K=[2]), call(K=[2], axis=1), call(K=S(1), axis=0, largest=0), call(K=[2], sorted=1)],
    "Transpose": [call(), call(perm=[1, 0])],
    "Trilu": [call(), call(k=1, upper=0), call(k=S())],
    "Unique": [call(), call(axis=0, sorted=0, outputs=4)],
    "Unsqueeze": [call(axes=[0]), call(axes=[0, -1]), call(axes=S(1))],
    "Upsample": [call(X=IMAGE, scales=[1.0, 1.0, 2.0, 2.0]), call(X=IMAGE, scales=S(4), mode="linear")],
    "Where": [call(), call(Y=0), call(X=S(3), condition=S(2, 1))],
}
"""Operators that are not listed: one call with every required input of shape (2, 3)."""
