"""One call of an ONNX operator, understood by the schema of the target opset; where that cannot be, the opset at which it can.

The same call is tried at the operator's other versions, so what an `OpsetError` says is true of the whole call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import onnx_ir as ir
import torch

from onnxexp import attributes as attrs
from onnxexp import binding, operands
from onnxexp.errors import LoweringError, OpsetError
from onnxexp.schemas import Operator, history
from onnxexp.values import Tensor
from onnxexp.version import MAX_OPSET, MIN_OPSET

__all__ = ["Call", "check_graph_types", "read"]


class Call(NamedTuple):
    """A call that fits its operator.

    Attributes:
        spec: The operator.
        opset: The version of its domain at which the call was understood.
        inputs: Tensors, Python values and None, in the schema's order.
        dtypes: What the schema's type variables are bound to.
        attributes: Those that differ from their defaults.
        results: The dtype of each output, None where inference has to tell.
        places: Where the inputs are among the call's arguments, see `onnxexp.binding.placed`.
    """

    spec: Operator
    opset: int
    inputs: list[Any]
    dtypes: dict[str, torch.dtype]
    attributes: dict[str, ir.Attr]
    results: list[torch.dtype | None]
    places: tuple[int, ...]


def read(domain: str, name: str, opset: int, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int | None) -> Call:
    """The call at `opset`, the version of its domain.

    Raises:
        OpsetError: only other opsets can express it.
        LoweringError: none can, or, in a domain other than ONNX's own, one that is not imported.
        TypeError: it does not fit the operator.
        AttributeError: there is no such operator.
    """
    try:
        key = _key(domain, name, opset, args, kwargs, outputs)
        alike = None if key is None else _UNDERSTOOD.get(key)
        if alike is not None:
            inputs, attributes = binding.placed(args, kwargs, alike.places), attrs.copied(alike.attributes)
            return Call(alike.spec, opset, inputs, alike.dtypes, attributes, alike.results, alike.places)
        call = _at(domain, name, opset, args, kwargs, outputs)
        if key is not None and all(arg is None or place in call.places for place, arg in enumerate(args)):
            if len(_UNDERSTOOD) >= _MOST:
                _UNDERSTOOD.clear()
            _UNDERSTOOD[key] = call._replace(inputs=[], attributes=attrs.copied(call.attributes))
        return call
    except (LoweringError, TypeError) as error:
        others = [version for version in _served(domain, name) if version != opset]
        works = [version for version in others if _fits(domain, name, version, args, kwargs, outputs)]
        if not works:
            raise
        later = [version for version in works if version > opset]
        if domain:
            version = later[0] if later else works[-1]
            raise LoweringError(f"{error}; version {version} of {domain} can: custom_opsets={{{domain!r}: {version}}}") from None
        if later:
            raise OpsetError(f"{error}; opset {later[0]} can express this call", later[0]) from None
        raise OpsetError(f"{error}; opset {_end(name, works[-1])} is the last that can express this call") from None


_UNDERSTOOD: dict[tuple[Any, ...], Call] = {}
"""Calls that are alike are understood once; without their inputs, by `_key`."""
_MOST = 4096
_NUMBERS = frozenset({bool, int, float, type(None)})
_WORDS = frozenset({bool, int, str, torch.dtype, type(None)})


def _key(
    domain: str, name: str, opset: int, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int | None
) -> tuple[Any, ...] | None:
    """What decides about a call whose arguments by position are inputs, None where there is more to one of its arguments."""
    key = (domain, name, opset, outputs, tuple(kwargs), *map(_kind, args), *map(_said, kwargs.values()))
    return None if None in key[4:] else key


def _kind(arg: Any) -> Any:
    """What decides about an input that is a Tensor, a number, ints or nothing: its dtype or type."""
    if isinstance(arg, Tensor):
        return arg._dtype or operands.dtype_of(arg)
    return type(arg) if type(arg) in _NUMBERS or _is_ints(arg) else None


def _said(value: Any) -> tuple[Any, Any] | None:
    """What is given by name as something that equals the same alone."""
    if type(value) in _WORDS:
        return type(value), value
    if type(value) is float:
        return float, repr(value)  # 0.0 equals -0.0, and no nan equals itself
    return (list, tuple(value)) if _is_ints(value) else None


def _is_ints(value: Any) -> bool:
    return type(value) is list and {*map(type, value)} <= {int}


def check_graph_types(name: str, opset: int, tensors: Sequence[Tensor]) -> None:
    """That an operator with graphs (If, Loop, Scan) takes what goes in and out of them. Raises OpsetError, LoweringError."""
    for tensor in tensors:
        type_ = operands.type_of(tensor)
        takes = [
            version.since
            for version in history("", name)
            if any(type_ in formal.types for formal in version.inputs + version.outputs)
        ]
        if type_ is None or (takes and takes[0] <= opset):
            continue
        message = f"ONNX's {name} does not take {type_} at opset {opset}"
        if not takes:
            raise LoweringError(message)
        raise OpsetError(f"{message}; opset {takes[0]} can express this call", takes[0])


def _served(domain: str, name: str) -> list[int]:
    """Where the versions of an operator begin, without those that no opset of ours has."""
    since = [version.since for version in history(domain, name) if not version.deprecated]
    return [version for version in since if domain or _end(name, version) >= MIN_OPSET]


def _end(name: str, since: int) -> int:
    """The last opset of the version of an operator of ONNX's own domain that begins at `since`."""
    return min((version.since - 1 for version in history("", name) if version.since > since), default=MAX_OPSET)


def _fits(domain: str, name: str, opset: int, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int | None) -> bool:
    try:
        _at(domain, name, opset, args, kwargs, outputs)
    except (LoweringError, TypeError):
        return False
    return True


def _at(domain: str, name: str, opset: int, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: int | None) -> Call:
    spec = binding.find(domain, name, opset)
    inputs, named, places = binding.bind(spec, args, kwargs, opset)
    count = spec.results if outputs is None else outputs
    if count > len(spec.outputs) and not spec.outputs[-1].variadic:
        raise LoweringError(f"{name} has {len(spec.outputs)} outputs at opset {opset}, not {count}")
    if outputs is not None and "num_outputs" in spec.attributes and len(inputs) == 1:
        named.setdefault("num_outputs", outputs)  # Split from 18 on wants to be told what its outputs show
    dtypes = operands.dtypes(spec, inputs, opset)
    attributes = attrs.encode(spec, named)
    results = operands.result_dtypes(spec, dtypes, attributes, count, opset)
    return Call(spec, opset, inputs, dtypes, attributes, results, places)
