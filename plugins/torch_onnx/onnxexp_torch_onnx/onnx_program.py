"""`ONNXProgram` with the methods of torch.onnx's class of that name."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import onnx
import onnx.reference
import onnx_ir as ir
import torch

import onnxexp
from onnxexp import OptionError, warn
from onnxexp.checking import Session
from onnxexp.rewriting import TorchTensor
from onnxexp_torch_onnx.errors import OnnxExporterWarning


class ONNXProgram(onnxexp.ONNXProgram):
    """An exported model with the methods of torch.onnx's class.

    A call returns the graph's outputs as a flat tuple. `onnxexp.ONNXProgram` nests them as the original nests its result.
    """

    _original: Any
    _exported: torch.export.ExportedProgram | None = None
    _loaded_model: Session | None = None

    @classmethod
    def of(cls, program: onnxexp.ONNXProgram, original: Any) -> ONNXProgram:
        """Return an export's program with this class; both share all parts."""
        made = cls.__new__(cls)
        vars(made).update(vars(program), _original=original)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model in ONNX Runtime, with the original's arguments.

        Returns the outputs in the order of the graph, as tensors on the CPU. Raises what `onnxexp.ONNXProgram` raises.
        """
        session = self._loaded_model
        if session is None:
            self._loaded_model = session = Session(self.model, self.prepare)
        return tuple(session.run(self._feeds(args, kwargs)))

    def _feeds(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.weights, **self.signature.feeds(self.signature.flatten(args, kwargs))}

    @property
    def model(self) -> ir.Model:
        """The ONNX model.

        Assign the model after a change, so that the next call loads it again.
        """
        return super().model

    @model.setter
    def model(self, model: ir.Model) -> None:
        self._loaded_model = None
        onnxexp.ONNXProgram.model.fset(self, model)  # type: ignore[attr-defined] # a property

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model as a call does, in onnx's reference evaluator."""
        arrays = {name: torch.as_tensor(feed).detach().numpy() for name, feed in self._feeds(args, kwargs).items()}
        outputs: Any = onnx.reference.ReferenceEvaluator(self.model_proto).run(None, arrays)
        return tuple(torch.as_tensor(output) for output in outputs)

    def compute_values(
        self, value_names: Sequence[str], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> tuple[Any, ...]:
        """Compute the graph's values of these names, in their order.

        Raises OptionError for a name that no value of the graph has.
        """
        graph = self.model.graph
        made = [output for node in graph for output in node.outputs]
        values = {value.name: value for value in (*graph.inputs, *graph.initializers.values(), *made)}
        unknown = [name for name in value_names if name not in values]
        if unknown:
            raise OptionError(f"the graph has no value {', '.join(unknown)}; print(program) shows their names")
        names = list(dict.fromkeys(value_names))
        with _changed(graph.outputs, [values[name] for name in names]):
            self.release()
            try:
                found = dict(zip(names, self(*args, **kwargs or {}), strict=True))
            finally:
                self.release()
        return tuple(found[name] for name in value_names)

    @property
    def exported_program(self) -> torch.export.ExportedProgram:
        """The original as torch.export captures it.

        It is captured at the first access: the export itself adds operators of its own, or traces. Raises what torch.export
        raises.
        """
        if self._exported is None:
            if isinstance(self._original, torch.export.ExportedProgram):
                self._exported = self._original
            else:
                (args, kwargs), shapes = self.example, None if self.spec is None else self.spec.shapes
                self._exported = torch.export.export(
                    self._original, tuple(args), dict(kwargs), dynamic_shapes=shapes, strict=False
                )
        return self._exported

    def optimize(self) -> None:
        """Do nothing: the graph is built without what torch's method removes."""

    def save(
        self,
        destination: str | os.PathLike[str] | BinaryIO,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
        strip: bool = False,
    ) -> Any:
        """Write the model, and return the files, as `onnxexp.ONNXProgram.save` does.

        Args:
            destination: A path, or a binary file object.
            include_initializers: False leaves the weights out of the file.
            keep_initializers_as_inputs: Whether the weights are inputs of the graph, too.
            external_data, strip: As for `onnxexp.ONNXProgram.save`.
        """
        graph = self.model.graph
        weights = dict(graph.initializers)
        listed = {value.name for value in graph.inputs}
        added = [value for name, value in weights.items() if name not in listed] if keep_initializers_as_inputs else []
        with _changed(graph.inputs, [*graph.inputs, *added]):
            if not include_initializers:
                graph.initializers.clear()
            try:
                return super().save(destination, external_data=external_data, strip=strip)
            finally:
                graph.initializers.update(weights)

    def apply_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Give the graph's initializers of these names other contents.

        An export may transpose a weight or fold it. Warnings name the tensors that the graph lacks, and the initializers that may
        be computed from the old weights. Raises OptionError for a tensor of another shape or dtype.
        """
        weights = self.model.graph.initializers
        missing = [name for name in state_dict if name not in weights]
        computed = [name for name, value in weights.items() if name not in state_dict and _may_be_computed(value)]
        for name in state_dict.keys() & weights.keys():
            made = TorchTensor(state_dict[name].detach())
            made.name = name
            old = weights[name].const_value
            if old is not None and (old.dtype != made.dtype or old.shape != made.shape):
                raise OptionError(
                    f"apply_weights: {name} is {old.dtype} of shape {old.shape} in the graph, and {made.dtype} of {made.shape} "
                    "among the weights; to fix this, export the model with these weights"
                )
            weights[name].const_value = made
        for problem, names in (("lacks", missing), ("may have computed from the old weights", computed)):
            if names:
                text = f"apply_weights: the graph {problem} {', '.join(names)}, which stays as it is"
                warn(f"{text}. To fix this, export the model with these weights", OnnxExporterWarning)
        self.release()

    def initialize_inference_session(self, initializer: Callable[[str | bytes], Any] | None = None) -> None:
        """Load the model into ONNX Runtime, which the first call does otherwise.

        `initializer` makes the session of a path or of a model's bytes.
        """
        self._loaded_model = Session(self.model, self.prepare, initializer)

    def release(self) -> None:
        """Drop the session; the next call loads the model again."""
        self.model = self.model

    def rename_axes(self, rename_mapping: Mapping[str | ir.SymbolicDim, str]) -> None:
        """Rename sizes in all shapes of the model, also inside expressions.

        A key is the name of a size, or an element of a value's shape.
        """
        names = {str(key.value if isinstance(key, ir.SymbolicDim) else key): new for key, new in rename_mapping.items()}
        model = self.model
        graphs = [model.graph, *(function.graph for function in model.functions.values())]
        for graph in graphs:
            nodes = list(graph.all_nodes())
            for value in (*graph.inputs, *graph.outputs, *(output for node in nodes for output in node.outputs)):
                if value.shape is not None and not value.shape.is_static():
                    value.shape = ir.Shape([_renamed(size, names) for size in value.shape])
        self.release()


def _may_be_computed(value: ir.Value) -> bool:
    """Return whether an initializer is an array of floats, as a folded weight is."""
    contents = value.const_value
    return contents is not None and contents.dtype.is_floating_point() and contents.size > 1


def _renamed(size: int | ir.SymbolicDim, names: Mapping[str, str]) -> int | ir.SymbolicDim:
    if isinstance(size, int) or size.value is None:
        return size
    text = str(size.value)
    return ir.SymbolicDim(names.get(text) or re.sub(r"[A-Za-z_]\w*", lambda name: names.get(name[0], name[0]), text))


@contextlib.contextmanager
def _changed(values: Any, new: Sequence[ir.Value]) -> Iterator[None]:
    """Change the inputs or outputs of a graph inside the `with`."""
    before = list(values)
    values.clear()
    values.extend(new)
    try:
        yield
    finally:
        values.clear()
        values.extend(before)
