"""Run a model in ONNX Runtime, with torch tensors as inputs and outputs.

Inputs are handed over without a copy where they are contiguous and on the CPU; outputs are fresh tensors on the CPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import io
import os
import re
import weakref
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch
from onnx import TensorProto, helper

from onnxexp._builder.dtypes import onnx_dtype, torch_dtype
from onnxexp._builder.onnx_schemas import ir_version
from onnxexp._builder.torch_tensor_data import has_data
from onnxexp._errors import OnnxExporterError
from onnxexp._model.declared_sizes import contradiction
from onnxexp._model.origins import all_nodes
from onnxexp._model.type_text import place_of, type_text
from onnxexp._neutral_graph import TensorType
from onnxexp._serialize import WriteOptions, save
from onnxexp._serialize.hidden_folder import temporary_folder
from onnxexp._version import MAX_OPSET, MIN_OPSET

Prepare: TypeAlias = "Callable[[ir.Model, Any], ir.Model]"
"""Prepares a model, and ONNX Runtime's session options, see the hook `prepare_session`."""

_IN_MEMORY = 1 << 30
"""Bytes of weights above which a model goes through a temporary file."""

_QUIET = 4
"""ONNX Runtime's log severity "fatal": errors are raised, not printed."""

_BITS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
_NODE_NAMES = re.compile(
    r"Name:'([^']+)'|In Node, \(\"([^\"]+)\"|\bin node \(([^)]+)\)|node with name '([^']+)'|Node ?\(([^)]+)\)"
)
_LAST_OPSET = re.compile(r"Current official support for domain ai\.onnx is till opset (\d+)")


class Session:
    """A model loaded into ONNX Runtime. May be run from several threads.

    `initializer` makes ONNX Runtime's session of a model's bytes or a path; the default one is on the CPU.

    Raises OnnxExporterError where ONNX Runtime is not installed or refuses the model.
    """

    def __init__(
        self,
        model: ir.Model,
        prepare: Prepare = lambda model, options: model,
        initializer: Callable[[str | bytes], Any] | None = None,
    ) -> None:
        self._model = model
        self._initializer = initializer
        self._prepare = prepare
        self._ort = _onnxruntime()
        graph = model.graph
        self._inputs = {value.name or "": value for value in graph.inputs}
        self._symbolic = {name: sizes for name, value in self._inputs.items() if (sizes := _symbolic_sizes(value))}
        self._defaults = set(graph.initializers)
        self._plain = all(isinstance(value.type, ir.TensorType) for value in [*graph.inputs, *graph.outputs])
        options = self._ort.SessionOptions()
        options.log_severity_level = _QUIET
        try:
            self._session = self._load(options)
        except OnnxExporterError:
            raise
        except Exception as error:  # ONNX Runtime's errors have no base of their own
            raise self._explained("does not take this model", error) from error
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model and return its outputs in order.

        An output is a tensor, a list of tensors for a sequence, or None for an empty optional.

        Args:
            feeds: For each input's name a tensor, a Python number (for a scalar input), or a list of tensors (for a sequence).

        Raises:
            OnnxExporterError: an input is missing, unknown, of another dtype or shape, axes of one size differ, or ONNX Runtime
                failed.
        """
        self._check_names(feeds)
        try:
            values = {name: self._value(self._inputs[name], feed) for name, feed in feeds.items()}
            shapes = {name: values[name].shape() for name in values if name in self._symbolic}
            if problem := contradiction({name: self._symbolic[name] for name in shapes}, shapes):
                raise OnnxExporterError(problem)
            if self._plain:
                return [_tensor(value) for value in self._session.run_with_ort_values(self._outputs, values)]
            # An OrtValue has no access to the elements of a sequence; numpy has, but lacks bfloat16.
            return [_from_numpy(result) for result in self._session.run(self._outputs, values)]
        except OnnxExporterError:
            raise
        except Exception as error:  # ONNX Runtime's errors have no base of their own
            raise self._explained("failed while running this model", error) from error

    def _load(self, options: Any) -> Any:
        load = self._initializer or functools.partial(
            self._ort.InferenceSession, sess_options=options, providers=["CPUExecutionProvider"]
        )
        model = self._prepare(self._model, options)
        weights = (value.const_value for value in model.graph.initializers.values())
        if sum(weight.nbytes for weight in weights if weight is not None) <= _IN_MEMORY:
            buffer = io.BytesIO()
            save(model, buffer, WriteOptions(external_data=False))
            return load(buffer.getvalue())
        # The session may map the weights, so the files live as long as it does.
        stack = contextlib.ExitStack()
        weakref.finalize(self, stack.close)
        folder = stack.enter_context(temporary_folder())
        path = os.path.join(folder, "model.onnx")
        save(model, path, WriteOptions(external_data=True))
        return load(path)

    def _check_names(self, feeds: Mapping[str, Any]) -> None:
        unknown = [name for name in feeds if name not in self._inputs]
        missing = [name for name in self._inputs if name not in feeds and name not in self._defaults]
        if unknown or missing:
            problems = [f"there is no input {name}" for name in unknown] + [f"nothing is given for {name}" for name in missing]
            raise OnnxExporterError(f"{'; '.join(problems)} (the model's inputs: {', '.join(self._inputs) or 'none'})")

    def _value(self, slot: ir.Value, feed: Any) -> Any:
        """Convert an argument to ONNX Runtime's form."""
        type_ = slot.type.elem_type if isinstance(slot.type, ir.OptionalType) else slot.type
        if feed is None and type_ is not slot.type:
            return None
        if isinstance(type_, ir.SequenceType):
            if not isinstance(feed, (list, tuple)):
                raise OnnxExporterError(f"input {slot.name} is {type_text(slot)}, the call gives {feed!r}")
            return [_checked(slot, element).numpy() for element in feed]  # ONNX Runtime takes no OrtValue here
        tensor = _checked(slot, feed)
        bits = _BITS.get(tensor.element_size())
        if bits is None:
            raise OnnxExporterError(f"ONNX Runtime cannot be fed with {tensor.dtype} (input {slot.name})")
        element_type = int(onnx_dtype(tensor.dtype))
        return self._ort.OrtValue.ortvalue_from_numpy_with_onnx_type(tensor.view(bits).numpy(), element_type)

    def _explained(self, what: str, error: Exception) -> OnnxExporterError:
        message = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error).strip())
        lines = [f"ONNX Runtime {self._ort.__version__} {what}: {message}"]
        names = {name for match in _NODE_NAMES.finditer(message) for name in match.groups() if name}
        lines += [f"  at {place_of(node)}" for node in all_nodes(self._model) if node.name in names]
        last = _LAST_OPSET.search(message)
        if last is not None:
            lines.append(f"  export with opset_version={last[1]} or lower to run it here; the file itself is not at fault")
        elif "is not a registered function/op" in message:
            lines.append(
                "  to fix this, load the file in an onnxruntime.InferenceSession with a library of that operator's kernels, or "
                "let torch run it: export the operator without a symbolic, by onnxexp_custom_cpp.register_op(...)"
            )
        elif "NOT_IMPLEMENTED" in str(error):
            lines.append("  it has no CPU kernel for this operator with these types; another opset_version or dtype may have one")
        return OnnxExporterError("\n".join(lines))


def _onnxruntime() -> ModuleType:
    try:
        import onnxruntime
    except ImportError as error:
        raise OnnxExporterError(
            f"running a program needs ONNX Runtime, which cannot be imported ({error}): `pip install onnxexp[runtime]`"
        ) from error
    return onnxruntime  # type: ignore[no-any-return]


def _checked(slot: ir.Value, feed: Any) -> torch.Tensor:
    """Return the tensor to feed: contiguous, on the CPU, of the declared type."""
    wanted = torch_dtype(slot.type.dtype) if slot.type is not None and slot.dtype is not None else None
    tensor = _as_tensor(slot, feed, wanted)
    if not has_data(tensor):
        raise OnnxExporterError(f"the tensor given for {slot.name} has no data: it is a fake tensor or on the meta device")
    sizes = [size if isinstance(size, int) else None for size in slot.shape] if slot.shape is not None else list(tensor.shape)
    fits = len(sizes) == tensor.dim() and all(size in (None, given) for size, given in zip(sizes, tensor.shape, strict=True))
    if not fits or wanted not in (None, tensor.dtype):
        raise OnnxExporterError(
            f"input {slot.name} is {type_text(slot)}, the call gives {TensorType(tensor.dtype, tuple(tensor.shape))}"
        )
    return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()


def _symbolic_sizes(slot: ir.Value) -> list[str]:
    """Return the declared sizes of an input; [] where none is symbolic."""
    if slot.shape is None or slot.shape.is_static() or not isinstance(slot.type, ir.TensorType):
        return []
    return [str(size) if isinstance(size, int) else size.value or "" for size in slot.shape]


def _as_tensor(slot: ir.Value, feed: Any, wanted: torch.dtype | None) -> torch.Tensor:
    if isinstance(feed, torch.Tensor):
        paired = feed.is_complex() and wanted is not None and not wanted.is_complex
        return torch.view_as_real(feed.resolve_conj()) if paired else feed
    if isinstance(feed, (np.ndarray, np.generic)):
        return torch.as_tensor(feed)
    if isinstance(feed, (bool, int, float)) and (wanted is None or _takes(wanted, feed)):
        return torch.tensor(feed, dtype=wanted)
    raise OnnxExporterError(f"input {slot.name} is {type_text(slot)}, the call gives {feed!r}")


def _takes(dtype: torch.dtype, number: bool | int | float) -> bool:
    """Return whether a Python number converts to that dtype without a change of kind."""
    if isinstance(number, bool) or dtype is torch.bool:
        return isinstance(number, bool) and dtype is torch.bool
    return dtype.is_floating_point or isinstance(number, int)


def _tensor(value: Any) -> torch.Tensor:
    """Copy an output: ONNX Runtime may return the memory of an input or a weight."""
    try:
        dtype = torch_dtype(value.element_type())
    except TypeError as error:
        raise OnnxExporterError(f"an output of the model cannot be a torch tensor: {error}") from None
    tensor = torch.empty(tuple(value.shape()), dtype=dtype)
    if tensor.numel():
        ctypes.memmove(tensor.data_ptr(), value.data_ptr(), tensor.nbytes)
    return tensor


def _from_numpy(result: Any) -> Any:
    if isinstance(result, list):
        return [_from_numpy(element) for element in result]
    return None if result is None else torch.from_numpy(np.array(result))


@functools.lru_cache(maxsize=None)
def last_opset() -> int:
    """Find the highest opset that ONNX Runtime loads, by trial.

    Raises:
        ImportError: ONNX Runtime is not installed.
        RuntimeError: ONNX Runtime loads no model at all.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    node = helper.make_node("Identity", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    refusal: Exception | None = None
    for opset in range(MAX_OPSET, MIN_OPSET - 1, -1):
        model = helper.make_model(
            helper.make_graph([node], "probe", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", opset)],
            ir_version=ir_version(opset),
        )  # fmt: skip
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 - its error classes differ between versions
            refusal = error
            continue
        return opset
    raise RuntimeError(f"it loads no model at all: {refusal}")
