"""The names of ``torch.onnx.verification``."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp import VerificationError
from onnxexp.checking import compare, run_eager
from onnxexp_torch_onnx.exporting import export
from onnxexp_torch_onnx.mismatch import GraphInfo, find_mismatch
from onnxexp_torch_onnx.quantized_inputs_and_outputs import quantized_as_parts, with_quantized_parts

__all__ = ["GraphInfo", "OnnxBackend", "VerificationOptions", "find_mismatch", "verify"]


class OnnxBackend(enum.Enum):
    """The runtime for the exported model."""

    REFERENCE = "ONNXReferenceEvaluator"
    ONNX_RUNTIME_CPU = "CPUExecutionProvider"
    ONNX_RUNTIME_CUDA = "CUDAExecutionProvider"


@dataclasses.dataclass
class VerificationOptions:
    """Options of `verify`.

    Attributes:
        flatten: Compare nested outputs leaf by leaf; False if the model returns tensors only.
        ignore_none: Do not compare None among the outputs.
        check_shape, check_dtype: Compare shapes and dtypes.
        backend: The runtime: ONNX Runtime, or onnx's reference evaluator.
        rtol, atol: The tolerances.
        remained_onnx_input_idx: The indices of the ONNX model's inputs; None takes them from the model.
        acceptable_error_percentage: The share of elements (0 to 1) that may differ.
    """

    flatten: bool = True
    ignore_none: bool = True
    check_shape: bool = True
    check_dtype: bool = True
    backend: OnnxBackend = OnnxBackend.ONNX_RUNTIME_CPU
    rtol: float = 1e-3
    atol: float = 1e-7
    remained_onnx_input_idx: Sequence[int] | None = None
    acceptable_error_percentage: float | None = None


def verify(
    model: Any,
    input_args: Any,
    input_kwargs: Mapping[str, Any] | None = None,
    do_constant_folding: bool = True,
    dynamic_axes: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    training: Any = None,
    opset_version: int | None = None,
    keep_initializers_as_inputs: bool = True,
    verbose: bool = False,
    fixed_batch_size: bool = False,
    use_external_data: bool = False,
    additional_test_inputs: Sequence[Any] | None = None,
    options: VerificationOptions | None = None,
    **more: Any,
) -> None:
    """Export a model and compare its results with the original's.

    The inputs are the example and `additional_test_inputs`.

    `use_external_data` and `fixed_batch_size` have no effect: no file is written, and a model without dynamic axes has a fixed
    batch size. `more` are arguments of `export`.

    Raises VerificationError, an AssertionError, if they differ, and what `export` raises.
    """
    options = options or VerificationOptions()
    program = export(
        model, input_args, None, verbose=verbose, training=training, input_names=input_names, output_names=output_names,
        opset_version=opset_version, do_constant_folding=do_constant_folding, dynamic_axes=dynamic_axes, kwargs=input_kwargs,
        **more,
    )  # fmt: skip
    first = (input_args if isinstance(input_args, tuple) else (input_args,), dict(input_kwargs or {}))
    others: list[Any] = [(args if isinstance(args, tuple) else (args,), {}) for args in additional_test_inputs or ()]
    for args, kwargs in [first, *others]:
        if args and isinstance(args[-1], dict) and not kwargs:
            args, kwargs = args[:-1], args[-1]
        assert program.eager is not None
        capture = more.get("capture", "auto")
        _, args, kwargs = with_quantized_parts(model, capture, args, kwargs)
        with quantized_as_parts(model, capture):
            expected = run_eager(program.eager, args, kwargs)
        actual = _reference(program, args, kwargs) if options.backend is OnnxBackend.REFERENCE else program(*args, **kwargs)
        _check(pytree.tree_leaves(expected), pytree.tree_leaves(actual), options)


def _reference(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the results of onnx's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    leaves = program.signature.flatten(args, kwargs)
    feeds = {name: torch.as_tensor(value).numpy() for name, value in program.signature.feeds(leaves).items()}
    results = ReferenceEvaluator(program.model_proto).run(None, feeds)
    return program.signature.unflatten([torch.as_tensor(result) for result in results], leaves)


def _check(expected: list[Any], actual: list[Any], options: VerificationOptions) -> None:
    if options.ignore_none:
        expected, actual = ([each for each in leaves if each is not None] for leaves in (expected, actual))
    if len(expected) != len(actual):
        raise VerificationError(f"the original returns {len(expected)} values, the exported model {len(actual)}")
    for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            if not options.check_dtype:
                other = other.to(one.dtype)
            if not options.check_shape and one.numel() == other.numel():
                other = other.reshape(one.shape)
        report = compare(one, other, [f"output {number}"], rtol=options.rtol, atol=options.atol)
        if not report.ok and not _acceptable(one, other, options):
            report.raise_for_difference()


def _acceptable(one: Any, other: Any, options: VerificationOptions) -> bool:
    """Return whether the share of elements that differ is within the limit."""
    if options.acceptable_error_percentage is None or not isinstance(one, torch.Tensor) or one.shape != other.shape:
        return False
    off = ~torch.isclose(one, other, rtol=options.rtol, atol=options.atol, equal_nan=True)
    return float(off.float().mean()) <= options.acceptable_error_percentage
