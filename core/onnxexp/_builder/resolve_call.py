"""Resolve an operator call against the schema of the target opset.

A call that does not fit is resolved at the operator's other versions, so that an `OpsetError` names an opset that takes the whole
call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import onnx_ir as ir
import torch

from onnxexp._builder import arguments, operands
from onnxexp._builder import attributes as attrs
from onnxexp._builder.onnx_schemas import Operator, history
from onnxexp._builder.tensor import Tensor
from onnxexp._errors import LoweringError, OpsetError
from onnxexp._version import MAX_OPSET, MIN_OPSET


class OperatorCall(NamedTuple):
    """A call resolved at one opset.

    Attributes:
        spec: The operator.
        opset: The version of its domain.
        inputs: Tensors, Python values and None, in the schema's order.
        dtypes: The dtypes of the schema's type variables.
        attributes: The attributes that differ from their defaults.
        results: The dtype of each output, None where only inference can find it.
    """

    spec: Operator
    opset: int
    inputs: list[Any]
    dtypes: dict[str, torch.dtype]
    attributes: dict[str, ir.Attr]
    results: list[torch.dtype | None]


def resolve_call(
    domain: str, name: str, opset: int, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int | None
) -> OperatorCall:
    """Resolve a call at `opset`, the version of its domain.

    Raises:
        OpsetError: Only another opset can express the call.
        LoweringError: No opset can express the call, or only a version of a custom domain that is not imported.
        TypeError: The call does not fit the operator.
        AttributeError: The operator does not exist.
    """
    resolve_at = functools.partial(_resolve_at, domain, name, args, kwargs, outputs)
    try:
        return resolve_at(opset)
    except (LoweringError, TypeError) as error:
        fitting = [version for version in _other_versions(domain, name, opset) if _fits(resolve_at, version)]
        if not fitting:
            raise
        raise _error_with_opset(error, domain, name, opset, fitting) from None


def _other_versions(domain: str, name: str, opset: int) -> list[int]:
    """List the versions of an operator that a model may import in place of `opset`."""
    versions = [version.since for version in history(domain, name) if not version.schema.deprecated]
    return [version for version in versions if version != opset and (domain or _last_opset(name, version) >= MIN_OPSET)]


def _error_with_opset(error: Exception, domain: str, name: str, opset: int, fitting: list[int]) -> LoweringError:
    """Return an error that names a version out of `fitting`, the next later one first."""
    later = [version for version in fitting if version > opset]
    if domain:
        version = later[0] if later else fitting[-1]
        return LoweringError(f"{error}; version {version} of {domain} can: custom_opsets={{{domain!r}: {version}}}")
    if later:
        return OpsetError(f"{error}; opset {later[0]} can express this call", later[0])
    return OpsetError(f"{error}; opset {_last_opset(name, fitting[-1])} is the last that can express this call")


def check_graph_types(name: str, opset: int, tensors: Sequence[Tensor]) -> None:
    """Raise OpsetError or LoweringError for types that If, Loop or Scan cannot take."""
    for tensor in tensors:
        type_ = operands.type_of(tensor)
        versions = [
            version.since
            for version in history("", name)
            if any(type_ in formal.types for formal in version.inputs + version.outputs)
        ]
        if type_ is None or (versions and versions[0] <= opset):
            continue
        message = f"ONNX's {name} does not take {type_} at opset {opset}"
        if not versions:
            raise LoweringError(message)
        raise OpsetError(f"{message}; opset {versions[0]} can express this call", versions[0])


def _last_opset(name: str, since: int) -> int:
    """Return the last opset of the default domain's version that begins at `since`."""
    return min((version.since - 1 for version in history("", name) if version.since > since), default=MAX_OPSET)


def _fits(resolve_at: Callable[[int], OperatorCall], opset: int) -> bool:
    """Return whether a call can be resolved at an opset."""
    try:
        resolve_at(opset)
    except (LoweringError, TypeError):
        return False
    return True


def _resolve_at(
    domain: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int | None, opset: int
) -> OperatorCall:
    """Resolve a call at `opset` without a look at other versions."""
    spec = arguments.find(domain, name, opset)
    inputs, named = arguments.split_arguments(spec, args, kwargs, opset)
    count = spec.results if outputs is None else outputs
    if count > len(spec.outputs) and not spec.outputs[-1].variadic:
        raise LoweringError(f"{name} has {len(spec.outputs)} outputs at opset {opset}, not {count}")
    if outputs is not None and "num_outputs" in spec.attributes and len(inputs) == 1:
        named.setdefault("num_outputs", outputs)  # Split requires it from opset 18 on
    dtypes = operands.bind_type_variables(spec, inputs, opset)
    attributes = attrs.encode(spec, named)
    results = operands.result_dtypes(spec, dtypes, attributes, count, opset)
    return OperatorCall(spec, opset, inputs, dtypes, attributes, results)
