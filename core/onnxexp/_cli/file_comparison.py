"""Compare an ONNX file with its PyTorch model.

The file does not record how its inputs and outputs map to the model's parameters and results. They are matched by the default
names of an export, else by position.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._capture.model_weights import find_weights
from onnxexp._checking.comparison import VerificationReport, compare, run_eager
from onnxexp._checking.mismatch import find_mismatch
from onnxexp._checking.mismatch_report import MismatchReport
from onnxexp._cli.model_target import Target
from onnxexp._errors import OptionError, VerificationError
from onnxexp._model.declared_sizes import symbol_values
from onnxexp._model.onnxruntime_session import Session
from onnxexp._model.signature import InputSlot, OutputSlot, Signature
from onnxexp._pipeline import export
from onnxexp._plugins import loading
from onnxexp._program.plugin_hooks import prepare_session
from onnxexp._request import config
from onnxexp._request.export_context import ExportContext
from onnxexp._request.module_and_forward import as_module, forward_of, signature_of
from onnxexp._request.options import Options
from onnxexp._request.pytree_leaves import Leaf, bind, flatten_inputs, flatten_outputs
from onnxexp._request.tensor_list import TensorList
from onnxexp._serialize.model_reader import read_model
from onnxexp._symbolic_size import SymbolicSize
from onnxexp._version import DEFAULT_OPSET


class Comparer:
    """An ONNX file in ONNX Runtime, to compare with a model.

    Call `against` to set the model, then `compare`.

    Raises:
        OptionError: The file is missing or is not an ONNX model.
    """

    def __init__(self, path: Path) -> None:
        self._model = read_model(path)
        self._plugins = loading.load(config.load())  # before the model, which may put its folder on the path
        self._inputs = {
            value.name or "": value for value in self._model.graph.inputs if value.name not in self._model.graph.initializers
        }
        self._declared = {name: [_text(size) for size in value.shape or ()] for name, value in self._inputs.items()}
        self._outputs = [value.name or "" for value in self._model.graph.outputs]

    def against(self, target: Target) -> None:
        """Set the model to compare with, and load the file.

        The model may define operators of the file.

        Raises:
            OptionError: The model's example does not match the file's inputs, or its weights do not fit.
            OnnxExporterError: ONNX Runtime refuses the file.
        """
        self._session = Session(self._model, functools.partial(prepare_session, self._plugins, None))
        program = isinstance(target.model, torch.export.ExportedProgram)
        args, kwargs = target.args, target.kwargs
        if program and not args and not kwargs and target.model.example_inputs is not None:
            args, kwargs = target.model.example_inputs
        self._eager = target.model.module(check_guards=False) if program else as_module(target.model)
        if not program:
            self._eager.eval()
        for path, name, tensor in find_weights(target.model if program else self._eager, target.options.get("weights")):
            setattr(self._eager.get_submodule(path), name, tensor)
        if any(isinstance(value.type, (ir.SequenceType, ir.OptionalType)) for value in self._inputs.values()):
            args, kwargs = TensorList.in_call(self._eager, args, kwargs, "script")
        self._args, self._kwargs, self._target = args, dict(kwargs), target
        context = ExportContext(Options(self._model.opset_imports.get("") or DEFAULT_OPSET))
        with self._plugins.capturing(context):  # a plugin may register containers with pytree
            leaves = flatten_inputs(bind(forward_of(self._eager), args, self._kwargs), args, self._kwargs)
        self._slots = self._match_inputs(leaves)

    def compare(self, sizes: Mapping[str, int], *, rtol: float | None, atol: float | None) -> VerificationReport:
        """Run both on the example inputs with the named axes resized, and compare.

        Raises:
            OptionError: No input has an axis of that name, or the model fails at that size.
            VerificationError: The results have different structures.
            OnnxExporterError: ONNX Runtime failed.
        """
        flat, structure = pytree.tree_flatten((self._args, self._kwargs))
        self._check_sizes(sizes)
        present = {slot.name: flat[slot.leaf].shape for slot in self._slots if isinstance(flat[slot.leaf], torch.Tensor)}
        values = symbol_values({name: self._declared[name] for name in present}, present)
        for slot in self._slots:
            flat[slot.leaf] = _resized(flat[slot.leaf], self._declared[slot.name], values, {**values, **sizes})
        args, kwargs = pytree.tree_unflatten(flat, structure)
        try:
            expected = run_eager(self._eager, args, kwargs)
        except Exception as error:
            where = " at these sizes" if sizes else " on the example inputs"
            raise OptionError(f"the model itself fails{where}: {type(error).__name__}: {error}") from error
        results = self._session.run({slot.name: flat[slot.leaf] for slot in self._slots})
        leaves = flatten_outputs(expected)
        signature = Signature(
            self._slots, self._match_outputs(leaves), structure, pytree.tree_structure(expected),
            parameters=signature_of(self._eager),
        )  # fmt: skip
        names = signature.output_names(self._outputs, results)
        return compare(expected, signature.unflatten(results, flat), names, rtol=rtol, atol=atol)

    def differing_weights(self) -> list[str]:
        """Name the parameters and buffers with other values than in the file.

        An export may change the order of the values, or write a weight in another dtype or size. Such weights do not count as
        different.
        """
        own = dict(self._eager.state_dict(keep_vars=True))
        shared = {name: value.const_value for name, value in self._model.graph.initializers.items() if name in own}
        return [
            name
            for name, written in shared.items()
            if written is not None and _other_values(TorchTensor(own[name].detach().cpu()), written)
        ]

    def find_mismatch(self, **tolerances: Any) -> MismatchReport:
        """Compare node by node with an export made now, whose values have the same names.

        Raises OptionError where the file's values have other names, and the exceptions of `onnxexp.export`.
        """
        names = list(self._inputs)
        axes = {
            name: {axis: str(size.value) for axis, size in enumerate(value.shape or ()) if isinstance(size, ir.SymbolicDim)}
            for name, value in self._inputs.items()
        }
        asked = {"opset_version": self._model.opset_imports.get(""), "input_names": names, **self._target.options}
        if "dynamic_shapes" not in asked:
            asked.setdefault("dynamic_axes", {name: each for name, each in axes.items() if each})
        for name in ("f", "verify", "verbose", "external_data"):
            asked.pop(name, None)
        program = export(self._target.model, tuple(self._args), kwargs=self._kwargs, **asked)
        own, file = ({value.name for node in model.graph for value in node.outputs} for model in (program.model, self._model))
        shared = own & file
        if 2 * len(shared) < len(own) or set(names) != {value.name for value in program.model.graph.inputs}:
            raise OptionError(
                f"the file's values have other names than those of an export of this model now ({len(shared)} of {len(own)} are "
                "there): onnxexp did not write it, or with other options; export the model again and use program.find_mismatch()"
            )
        return find_mismatch(program, *program.example, model=self._model, **tolerances)

    def _match_inputs(self, leaves: list[Leaf]) -> list[InputSlot]:
        by_name = {leaf.name: index for index, leaf in enumerate(leaves)}
        if set(self._inputs) <= set(by_name):
            return [InputSlot(name, by_name[name]) for name in self._inputs]
        tensors = [index for index, leaf in enumerate(leaves) if isinstance(leaf.value, (torch.Tensor, TensorList))]
        if len(tensors) != len(self._inputs):
            raise OptionError(
                f"the example's inputs are {', '.join(leaf.name for leaf in leaves) or 'none'}; the file's inputs are "
                f"{', '.join(self._inputs) or 'none'}: they match neither by name nor, tensor by tensor, in number"
            )
        return [InputSlot(name, index) for name, index in zip(self._inputs, tensors, strict=True)]

    def _match_outputs(self, leaves: list[Leaf]) -> list[OutputSlot]:
        """Map each leaf of the model's result to an output of the file, or to a constant.

        Raises VerificationError where the numbers of results and outputs do not fit.
        """
        names, free = set(self._outputs), list(range(len(self._outputs)))
        values = [leaf for leaf in leaves if isinstance(leaf.value, (torch.Tensor, bool, int, float))]
        tensors = [leaf for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
        if names <= {leaf.name for leaf in values}:
            places = {leaf.name: self._outputs.index(leaf.name) for leaf in values if leaf.name in names}
        else:
            matched = next((each for each in (tensors, values) if len(each) == len(free)), None)
            if matched is None:
                raise VerificationError(
                    f"the model returns {', '.join(leaf.name for leaf in leaves) or 'nothing'}; the file's outputs are "
                    f"{', '.join(self._outputs) or 'none'}"
                )
            places = {leaf.name: index for leaf, index in zip(matched, free, strict=True)}
        return [_slot(leaf, places.get(leaf.name)) for leaf in leaves]

    def _check_sizes(self, sizes: Mapping[str, int]) -> None:
        known = {size for declared in self._declared.values() for size in declared if size and not size.isdigit()}
        for name in sizes:
            if name not in known:
                raise OptionError(
                    f"--sizes: no input has a dynamic axis {name!r}; there are {', '.join(sorted(known)) or 'none'}"
                )


def _other_values(own: ir.TensorProtocol, written: ir.TensorProtocol) -> bool:
    """Return whether a weight has other values than the file's, in whichever order."""
    if own.dtype != written.dtype or own.size != written.size:
        return False
    width = min(max(int(own.dtype.itemsize), 1), 8)
    ours, files = (np.frombuffer(tensor.tobytes(), f"u{width}") for tensor in (own, written))
    return not np.array_equal(ours, files) and not np.array_equal(np.sort(ours), np.sort(files))


def _text(size: int | ir.SymbolicDim) -> str:
    return str(size.value or "") if isinstance(size, ir.SymbolicDim) else str(size)


def _slot(leaf: Leaf, output: int | None) -> OutputSlot:
    if output is None:
        if isinstance(leaf.value, torch.Tensor):
            raise VerificationError(f"the model returns {leaf.name}, which the file lacks")
        return OutputSlot(constant=leaf.value)
    scalar = type(leaf.value) if isinstance(leaf.value, (bool, int, float)) else None
    return OutputSlot(output=output, scalar=scalar)


def _resized(value: Any, declared: Sequence[str], values: Mapping[str, int], changed: Mapping[str, int]) -> Any:
    """Resize a tensor's axes whose declared size changes by repeating its contents."""
    for axis, name in enumerate(declared if isinstance(value, torch.Tensor) else ()):
        present, size = value.shape[axis], SymbolicSize(name).at(changed)
        if size is None or size == SymbolicSize(name).at(values):
            continue
        if present == 0:
            value = value.new_zeros([*value.shape[:axis], size, *value.shape[axis + 1 :]])
        else:
            value = value.index_select(axis, torch.arange(size, device=value.device) % present)
    return value
