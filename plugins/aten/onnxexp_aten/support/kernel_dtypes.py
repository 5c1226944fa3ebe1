"""Dtypes that ONNX operators run with at the target, and casts to them.

For the target "onnx", the operator's schema decides. For ONNX Runtime, the table below lists the dtypes that the schema and the
CPU kernels of every supported release, from 1.20 on, support. float16 counts where the schema has it, since ONNX Runtime
inserts its own casts. So does bfloat16, for accelerators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, Tensor, warn

LEAST_DTYPE = torch.float32
"""The dtype to which a bool is cast for ReduceMin.

Over no elements, ONNX Runtime 1.23 and older return 0 for int32, and infinity, which is true, for float32.
"""
_FLOATS = "float16 float32 float64"
_INTS = "int8 int16 int32 int64 uint8"
_ALL_BUT_BOOL = f"{_FLOATS} {_INTS}"
_WIDE = f"{_FLOATS} int32 int64"


def _listed(**versions: str) -> Mapping[torch.dtype, int]:
    """Map dtypes to their first opsets, from dtypes per opset: ``v9="float32"``."""
    newest_first = reversed(versions.items())  # torch's dtypes are attributes: getattr finds one by its name
    return MappingProxyType({getattr(torch, name): int(key[1:]) for key, names in newest_first for name in names.split()})


_MATH = _listed(v0=_FLOATS, v13="bfloat16")
_MATH_22 = _listed(v0=_FLOATS, v22="bfloat16")
_SINGLE = _listed(v0="float16 float32", v22="bfloat16")
_SINGLE_13 = _listed(v0="float16 float32", v13="bfloat16")
_WIDE_13 = _listed(v0=_WIDE, v13="bfloat16")
_EXTREME = _listed(v0=_WIDE, v12="int8 uint8", v13="bfloat16", v20="bool")
_EXTREMUM = _listed(v0=_FLOATS, v12="int32 int64", v13="bfloat16")
_ORDER_12 = _listed(v12=_WIDE, v16="bfloat16")
_BITS = _listed(v18=_INTS)

_RUNS: Mapping[str, Mapping[torch.dtype, int]] = MappingProxyType(
    {
        **dict.fromkeys(("Ceil", "Exp", "Floor", "Log", "Reciprocal", "Sigmoid", "Sqrt", "Tanh", "Softmax", "LogSoftmax"), _MATH),
        **dict.fromkeys(("Cos", "Sin"), _MATH_22),  # 1.20 has no Cos of float64; special functions use a shifted Sin
        **dict.fromkeys(("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan"), _SINGLE),
        **dict.fromkeys(("Elu", "GRU", "HardSigmoid", "LSTM", "RNN", "Selu", "Softplus", "Softsign"), _SINGLE),
        **dict.fromkeys(("Add", "Div", "Greater", "Less", "Mul", "Sub"), _WIDE_13),
        **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), _BITS),
        **dict.fromkeys(("GreaterOrEqual", "LessOrEqual"), _ORDER_12),
        **dict.fromkeys(("Max", "Min"), _EXTREMUM),
        **dict.fromkeys(("ReduceMax", "ReduceMin"), _EXTREME),
        **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSum"), _WIDE_13),
        **dict.fromkeys(("ReduceLogSumExp", "ReduceSumSquare"), _MATH),
        **dict.fromkeys(("ArgMax", "ArgMin"), _listed(v0=f"{_WIDE} int8 uint8", v13="bfloat16")),
        **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "InstanceNormalization"), _SINGLE),
        "Abs": _listed(v0=_ALL_BUT_BOOL, v13="bfloat16"),
        "BatchNormalization": _listed(v0=_FLOATS, v14="bfloat16"),
        "BitShift": _listed(v11="uint8 uint32 uint64"),
        "Celu": _listed(v12="float32"),
        "Clip": _listed(v0="float16 float32", v12="float64 int8 int32 int64 uint8", v13="bfloat16"),
        "Col2Im": _listed(v18="float32"),
        "Compress": _listed(v0=f"bool {_ALL_BUT_BOOL} uint16 uint32 uint64", v28="bfloat16"),
        "ConstantOfShape": _listed(v0=f"bool {_ALL_BUT_BOOL} uint16 uint32 uint64", v20="bfloat16"),
        "CumProd": _listed(v26="float16 float32 float64 int32 int64 bfloat16"),
        "CumSum": _listed(v11="float32 float64 int32 int64", v14="float16 bfloat16"),
        "Dropout": _listed(v12=_FLOATS, v13="bfloat16"),
        "Equal": _listed(v0="bool int32 int64", v11=_FLOATS, v13="bfloat16"),
        "Erf": _SINGLE_13,
        "Gelu": _listed(v20="float16 float32 bfloat16"),
        "GridSample": _listed(v0="float16 float32", v20="float64", v22="bfloat16"),
        "HardSwish": _listed(v14="float16 float32", v22="bfloat16"),
        "IsInf": _listed(v10="float32 float64", v20="float16 bfloat16"),
        "IsNaN": _MATH,
        "LeakyRelu": _listed(v0="float16 float32", v16="bfloat16"),
        "MaxPool": _listed(v0=_FLOATS, v12="int8 uint8", v22="bfloat16"),
        "Mish": _listed(v18="float16 float32", v22="bfloat16"),
        "Mod": _listed(v10=_ALL_BUT_BOOL, v13="bfloat16"),
        "Multinomial": _listed(v0="float16 float32"),
        "Neg": _listed(v0=f"{_WIDE} int8", v13="bfloat16"),
        "NonZero": _listed(v0="bool float32 int32 int64 uint8"),
        "PRelu": _listed(v0="float16 float32", v16="bfloat16"),
        "Pad": _listed(v0=_FLOATS, v11="int8 int32 int64 uint8", v13="bool bfloat16"),
        "Pow": _listed(v0=_FLOATS, v12="int32 int64", v15="bfloat16"),
        "RMSNormalization": _listed(v23="float16 float32"),
        **dict.fromkeys(("RandomNormal", "RandomUniform"), _listed(v0="float32 float64")),
        "Relu": _listed(v0=_FLOATS, v13="bfloat16", v14="int8 int32"),
        "Resize": _listed(v0="float16 float32", v13="bfloat16"),
        "RotaryEmbedding": _listed(v23="float16 float32"),
        "Round": _listed(v11=_FLOATS, v22="bfloat16"),
        "Sign": _listed(v0=_ALL_BUT_BOOL, v13="bfloat16"),
        "ThresholdedRelu": _listed(v10="float16 float32", v22="bfloat16"),
        "TopK": _listed(v0=_FLOATS, v11="int32 int64", v24="bfloat16"),
        "Unique": _listed(v11="float32 float64 int8 int64"),
        "Where": _listed(v0=f"{_WIDE} uint8", v16="bfloat16"),
    }
)

_LAST: Mapping[str, int] = MappingProxyType(dict.fromkeys(("Multinomial", "RandomNormal", "RandomUniform"), 21))
"""Last opsets with kernels in ONNX Runtime."""

_WIDER: Mapping[torch.dtype, tuple[torch.dtype, ...]] = MappingProxyType(
    {
        torch.bool: (torch.uint8, torch.int32, torch.int64, torch.float32),
        **dict.fromkeys((torch.uint8, torch.int8, torch.int16, torch.uint16), (torch.int32, torch.int64, torch.float32)),
        **dict.fromkeys((torch.int32, torch.uint32, torch.int64, torch.uint64), (torch.int64, torch.float64, torch.float32)),
        **dict.fromkeys((torch.float16, torch.bfloat16, torch.float64), (torch.float32,)),
    }
)
"""Replacements for a dtype that does not run, nearest first."""


def has_operator(op: Builder, name: str) -> bool:
    """Return whether ONNX has this operator, with float32, at the target opset."""
    return op.takes(name, torch.float32)


def targets_plain_onnx(op: Builder, since: int = 0) -> bool:
    """Return whether the target is plain ONNX, at an opset from `since` on."""
    return op.target == "onnx" and op.opset >= since


def runs(op: Builder, name: str, dtype: torch.dtype) -> bool:
    """Return whether an ONNX operator runs with a dtype at the target opset."""
    opset = op.opset  # ONNX's schemas do not list the kernels of ONNX Runtime
    if op.target == "onnx":
        return op.takes(name, dtype)
    return _RUNS[name].get(dtype, opset + 1) <= opset <= _LAST.get(name, opset)


def running_dtype(op: Builder, name: str, dtype: torch.dtype) -> torch.dtype:
    """Return the nearest dtype with which the operator runs, else the dtype itself."""
    if runs(op, name, dtype):
        return dtype
    return next((near for near in _WIDER.get(dtype, ()) if runs(op, name, near)), dtype)


def compute(op: Builder, name: str, *args: Any, **attributes: Any) -> Tensor:
    """Emit an operator whose inputs and output share the first input's dtype.

    Python numbers take that dtype. Casts surround an operator that does not run with it.
    """
    dtype = args[0].dtype
    inner = running_dtype(op, name, dtype)
    if dtype == torch.float16 and op.target == "onnxruntime" and _are_numbers_of_the_call(args):
        inner = torch.float32  # ONNX Runtime does not round the result of its own Casts where a Cast to a wider dtype follows
    result: Tensor = op.call("", name, *[None if arg is None else op.cast(arg, inner) for arg in args], **attributes)
    return op.cast(result, dtype)


def compress(op: Builder, x: Tensor, mask: Tensor, *, axis: int) -> Tensor:
    """Emit Compress, with casts around it where it does not take the dtype."""
    return op.cast(op.Compress(op.cast(x, running_dtype(op, "Compress", x.dtype)), mask, axis=axis), x.dtype)


def warn_of_rounding(op: Builder, x: Tensor) -> None:
    """Warn of wide integers in an operator that ONNX has for floats only."""
    if x.dtype in (torch.int32, torch.int64):
        name, dtype = op.node.op, str(x.dtype).removeprefix("torch.")
        warn(
            f"{name} of {dtype} is computed in float32, since ONNX has it for floats only: results above 2**24 are rounded "
            f"({op.node.where}); "
            "to fix this, keep the numbers below that, or multiply and sum windows of x.unfold(...), which is exact"
        )


def _are_numbers_of_the_call(args: Sequence[Any]) -> bool:
    """Return whether all tensors are 0-d, and one is known at run time only."""
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    return all(arg.rank == 0 for arg in tensors) and any(arg.const is None for arg in tensors)


def compare(op: Builder, name: str, *args: Any, **attributes: Any) -> Any:
    """Emit an operator as `compute`, with its own output dtypes (bool, indices)."""
    inner = running_dtype(op, name, args[0].dtype)
    return op.call("", name, *[op.cast(arg, inner) for arg in args], **attributes)
