"""Load a model with custom operators into ONNX Runtime."""

from __future__ import annotations

import ctypes
import importlib
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import torch
from onnx_ir.passes.common import ShapeInferencePass

from onnxexp.commands import read_json, read_model, temporary_folder
from onnxexp.torch_ops import overload
from onnxexp_custom_cpp.operators import METADATA
from onnxexp_custom_cpp.runtime.bridge_library import bridge as load_bridge
from onnxexp_custom_cpp.runtime.errors import BridgeError
from onnxexp_custom_cpp.runtime.torch_call import DOMAIN, TorchCall, call_of

_IN_MEMORY = 1 << 30
"""Bytes of weights above which a model goes through a temporary file."""
_BRIDGES = ("auto", "torch", "python", "never")


def session(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto | ir.Model,
    *,
    libraries: Sequence[str | os.PathLike[str]] = (),
    bridge: str = "auto",
    options: Any = None,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
    trusted: bool = False,
) -> Any:
    """Load a model into ONNX Runtime, so that its custom operators run.

    Each custom operator runs by the first of these that it has: the kernel of a library, its function in the model, torch's
    operator through the torch bridge.

    Args:
        model: The model, or its file.
        libraries: Libraries of custom operators for ONNX Runtime, and of torch operators.
        bridge: "auto"; "torch" takes the torch bridge also for operators with a function; "python" calls torch operators from
            Python, through the package onnxruntime-extensions, without a C++ compiler; "never" calls none.
        options: An `onnxruntime.SessionOptions`.
        providers: ONNX Runtime's execution providers.
        trusted: Load the torch libraries and import the Python modules that the file names for its operators. They run code.

    Returns:
        An `onnxruntime.InferenceSession`.

    Raises:
        BridgeError: An operator cannot be run, a library does not load, or the bridge cannot be built.
        OptionError: There is no such file, or it is damaged.
    """
    import onnxruntime

    options = options if options is not None else onnxruntime.SessionOptions()
    loaded, folder = _loaded(model)
    prepared = prepare(loaded, options, libraries=libraries, bridge=bridge, trusted=trusted)
    try:
        if prepared is loaded and folder is not None:
            return onnxruntime.InferenceSession(os.fspath(model), options, providers=list(providers))  # type: ignore[arg-type]
        return _session_of(prepared, options, list(providers))
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise BridgeError(f"ONNX Runtime does not take the model: {error}") from error


def prepare(
    model: ir.Model,
    options: Any,
    *,
    libraries: Sequence[str | os.PathLike[str]] = (),
    bridge: str = "auto",
    trusted: bool = False,
) -> ir.Model:
    """Prepare a model and the options of its session, as `session` does.

    Returns the model itself where no node of it needs torch, else a changed copy.
    """
    if bridge not in _BRIDGES:
        raise BridgeError(f"bridge is {bridge!r}; it may be {' or '.join(map(repr, _BRIDGES))}")
    mapped = _mapped(model)
    found = Libraries(libraries, options)
    if bridge == "never" or not any(_candidates(model, mapped)):
        return model
    for each in mapped.values() if trusted else ():
        found.load_torch_operator(each)
    model = _with_types(model, mapped)
    nodes = [
        node
        for node in _candidates(model, mapped)
        if not found.serves(node) and (bridge in ("torch", "python") or node.op_identifier() not in model.functions)
    ]
    calls = {node: call for node in nodes if (call := call_of(node, mapped.get(f"{node.domain}::{node.op_type}"))) is not None}
    if not calls:
        return model
    # onnxruntime-extensions has one register for the process, where each name can be there once
    names = _renamed(calls, f"_{uuid.uuid4().hex}" if bridge == "python" else "")
    if bridge == "python":
        _register_python_operators(names, options)
    else:
        load_bridge().register("".join(call.declaration(name) for name, call in names.items()), options)
    if not all(call.repeatable for call in names.values()):
        options.add_session_config_entry("optimization.disable_specified_optimizers", "ConstantFolding")
    # ONNX Runtime's threads spin while they wait, and keep torch's from running
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    model.graph.opset_imports[DOMAIN] = 1
    return model


def _mapped(model: ir.Model) -> dict[str, dict[str, Any]]:
    """Return the torch operators in a model's metadata."""
    text = model.metadata_props.get(METADATA, "{}")
    mapped = read_json(text.encode("utf-8", "surrogatepass"), f"the model's metadata {METADATA!r}")
    wanted = {"torch": str, "attributes": dict}
    entries = list(mapped.values()) if isinstance(mapped, dict) else [None]
    for entry in entries:
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key), type_) for key, type_ in wanted.items()):
            raise BridgeError(
                f"the model's metadata {METADATA!r} is no table of torch operators; to fix this, export the model again"
            )
    return dict(mapped)


def _session_of(model: ir.Model, options: Any, providers: list[Any]) -> Any:
    """Load a model from memory; one with large weights through a temporary file."""
    import onnxruntime

    weights = (value.const_value for value in model.graph.initializers.values())
    if sum(weight.nbytes for weight in weights if weight is not None) <= _IN_MEMORY:
        return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=providers)
    with temporary_folder() as folder:
        path = Path(folder) / "model.onnx"
        ir.save(model, path, external_data="weights")
        return onnxruntime.InferenceSession(path, options, providers=providers)


def _loaded(model: Any) -> tuple[ir.Model, Path | None]:
    """Return the model, and the folder of its file."""
    if isinstance(model, ir.Model):
        return model, None
    if isinstance(model, onnx.ModelProto):
        return ir.from_proto(model), None
    return read_model(model), None if isinstance(model, bytes) else Path(model).parent


def _candidates(model: ir.Model, mapped: Mapping[str, Any]) -> list[ir.Node]:
    """List the nodes of torch operators, also those in subgraphs and functions."""
    return [
        node
        for node in (*model.graph.all_nodes(), *(node for each in model.functions.values() for node in each.all_nodes()))
        if "torch_arguments" in node.attributes or f"{node.domain}::{node.op_type}" in mapped
    ]


def _with_types(model: ir.Model, mapped: Mapping[str, Any]) -> ir.Model:
    """Return a copy with the types that the nodes need and the file lacks."""
    try:
        model = model.clone()
    except Exception as error:  # onnx-ir's errors have no common class
        raise BridgeError("the model uses values that it does not compute; to fix this, export it again") from error
    values = [value for node in _candidates(model, mapped) for value in node.inputs if value is not None]
    if any(value.dtype is None for value in values):
        ShapeInferencePass()(model)
    return model


def _renamed(calls: Mapping[ir.Node, TorchCall], suffix: str) -> dict[str, TorchCall]:
    """Give each kind of call an operator of its own, with the constants left out.

    Calls that may differ from run to run get one each: ONNX Runtime merges equal nodes.
    """
    names: dict[str, TorchCall] = {}
    known: dict[Any, str] = {}
    for node, call in calls.items():
        base = call.operator._schema.name.replace("::", "_")
        key = call.declaration("") if call.repeatable else node
        name = known.setdefault(key, f"{base}_{len(known)}{suffix}")
        names[name] = call
        present = [value for value in node.inputs if value is not None]
        node.resize_inputs(len(present))
        for index, value in enumerate(present):
            node.replace_input_with(index, value)
        node.attributes.clear()
        node.domain, node.op_type, node.overload = DOMAIN, name, ""
    return names


_TYPES = {1: "dt_float", 2: "dt_uint8", 3: "dt_int8", 4: "dt_uint16", 5: "dt_int16", 6: "dt_int32", 7: "dt_int64", 9: "dt_bool",
          10: "dt_float16", 11: "dt_double", 12: "dt_uint32", 13: "dt_uint64"}  # fmt: skip
"""The names of onnxruntime-extensions for ONNX element types."""


def _register_python_operators(calls: Mapping[str, TorchCall], options: Any) -> None:
    """Add operators that call torch from Python to the options of a session.

    Raises BridgeError without onnxruntime-extensions, or for a dtype that it lacks.
    """
    try:
        import onnxruntime_extensions as extensions
    except ImportError as error:
        raise BridgeError("bridge='python' needs the package: pip install onnxruntime-extensions") from error
    for name, call in calls.items():
        unknown = [each for each in (*call.inputs, *call.outputs) if each not in _TYPES]
        if unknown:
            raise BridgeError(f"{call.operator}: onnxruntime-extensions has no dtype for the ONNX element types {unknown}")
        inputs, outputs = (
            [getattr(extensions.PyCustomOpDef, _TYPES[each]) for each in types] for types in (call.inputs, call.outputs)
        )
        extensions.onnx_op(op_type=f"{DOMAIN}::{name}", inputs=inputs, outputs=outputs)(_function(call))
    options.register_custom_ops_library(extensions.get_library_path())


def _function(call: TorchCall) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        results = [each.contiguous().numpy() for each in call(*map(torch.from_numpy, arrays))]
        return results[0] if len(results) == 1 else tuple(results)

    return run


class Libraries:
    """The libraries of one session; its options get those of ONNX Runtime.

    Raises BridgeError for a file that is neither kind of library, or does not load.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], options: Any) -> None:
        self._paths: list[str] = []
        self._served: dict[Any, bool] = {}
        for path in map(Path, paths):
            if not path.is_file():
                raise BridgeError(f"there is no library {path}")
            known = _operators()
            if _is_for_onnxruntime(path):
                _register(options, str(path.resolve()))
                self._paths.append(str(path.resolve()))
            else:
                _load_torch_library(path, known)

    def serves(self, node: ir.Node) -> bool:
        """Return whether a library has a kernel for a node: its model of one node loads."""
        if not self._paths:
            return False
        key = (node.op_identifier(), tuple(value and value.dtype for value in (*node.inputs, *node.outputs)), len(node.inputs))
        if key not in self._served:
            self._served[key] = self._loads(node)
        return self._served[key]

    def load_torch_operator(self, mapped: Mapping[str, Any]) -> None:
        """Load what the metadata of an operator name, where torch does not know it."""
        for path in mapped.get("libraries", ()):
            if overload(str(mapped["torch"])) is None and Path(path).is_file():
                _load_torch_library(Path(path))
        for name in mapped.get("modules", ()):
            if overload(str(mapped["torch"])) is None:
                try:
                    importlib.import_module(name)
                except ImportError as error:
                    raise BridgeError(
                        f"{mapped['torch']} is defined by the module {name}, which is not there: {error}"
                    ) from error

    def _loads(self, node: ir.Node) -> bool:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        for path in self._paths:
            options.register_custom_ops_library(path)
        inputs = [None if value is None else _copied(value, f"x{index}") for index, value in enumerate(node.inputs)]
        outputs = [_copied(value, f"y{index}") for index, value in enumerate(node.outputs)]
        alone = ir.Node(node.domain, node.op_type, inputs, node.attributes.values(), outputs=outputs)
        imports = {"": 17, node.domain: node.version or 1}
        graph = ir.Graph(
            [value for value in inputs if value is not None], outputs, nodes=[alone], opset_imports=imports, name="one"
        )
        try:
            onnxruntime.InferenceSession(ir.to_proto(ir.Model(graph, ir_version=8)).SerializeToString(), options)
        except Exception:  # noqa: BLE001 - ONNX Runtime's errors have no base of their own; the whole model's load reports them
            return False
        return True


def _copied(value: ir.Value, name: str) -> ir.Value:
    rank = None if value.shape is None else ir.Shape([None] * len(value.shape))
    return ir.Value(name=name, type=value.type, shape=rank)


def _is_for_onnxruntime(path: Path) -> bool:
    """Return whether a library exports the function that ONNX Runtime calls."""
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise BridgeError(f"the library {path} does not load: {error}") from error
    try:
        library.RegisterCustomOps  # noqa: B018 - the access looks the symbol up
    except AttributeError:
        return False
    return True


def _register(options: Any, path: str) -> None:
    try:
        options.register_custom_ops_library(path)
    except Exception as error:  # ONNX Runtime's errors have no base of their own
        raise BridgeError(f"ONNX Runtime does not take the library {path}: {error}") from error


def _load_torch_library(path: Path, known: int = -1) -> None:
    """Load a library of torch operators.

    Raises BridgeError where it registers none: `known` is the number of operators before it was opened.
    """
    name = str(path.resolve())
    again = name in torch.ops.loaded_libraries
    torch.ops.load_library(name)  # type: ignore[no-untyped-call]
    if not again and _operators() == known:
        raise BridgeError(
            f"{path} is no library of custom operators: it has no function RegisterCustomOps for ONNX Runtime, and registers no "
            "torch operator"
        )


def _operators() -> int:
    return len(torch._C._dispatch_get_all_op_names())
