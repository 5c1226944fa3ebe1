"""Quantized inputs and outputs as the graph has them: integers and parameters."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp import CaptureError, OnnxExporterError
from onnxexp.frontends import replace_attributes, signature_of
from onnxexp_quantized.capture.packed_weights import as_stand_in
from onnxexp_quantized.capture.quantized_tensor import BY_INTEGERS, QuantizedTensor

_SCHEMES = (torch.per_tensor_affine, torch.per_tensor_symmetric, torch.per_channel_affine, torch.per_channel_symmetric)


@dataclasses.dataclass(frozen=True)
class IntegerForm:
    """The parameters of a quantized input or output of the graph.

    Attributes:
        name: The name of the input; "" for a result of the original.
        dtype: The quantized dtype, as torch.quint8.
        scale, zero_point: Numbers, or a tuple with one for each index of `axis`.
        axis: The channels' axis; None for one scale.
    """

    name: str
    dtype: torch.dtype
    scale: float | tuple[float, ...]
    zero_point: int | tuple[int, ...]
    axis: int | None = None

    @classmethod
    def of(cls, tensor: torch.Tensor, name: str) -> IntegerForm | None:
        """Return the form of a quantized tensor; None for any other.

        Raises CaptureError for a tensor whose integers ONNX lacks.
        """
        if not tensor.is_quantized:
            return None
        if tensor.dtype not in BY_INTEGERS.values() or tensor.qscheme() not in _SCHEMES:
            raise CaptureError(
                f"{name or 'a result'} is a tensor of {tensor.dtype} with {tensor.qscheme()}, whose integers the graph cannot "
                "have as an input or output; to fix this, use quint8, qint8 or qint32 with integer zero points"
            )
        return cls.of_stand_in(as_stand_in(tensor), name)

    @classmethod
    def of_stand_in(cls, tensor: QuantizedTensor, name: str) -> IntegerForm:
        """Return the form of a stand-in whose parameters are numbers or real tensors."""
        if tensor.axis is None:
            return cls(name, tensor.dtype, *tensor.numbers())
        return cls(name, tensor.dtype, tuple(tensor.scale.tolist()), tuple(tensor.zero_point.tolist()), tensor.axis)

    def __call__(self, given: Any) -> Any:
        """Return the integers of a quantized tensor; anything else as it is.

        Raises OnnxExporterError for a tensor with other parameters.
        """
        if not isinstance(given, torch.Tensor) or not given.is_quantized:
            return given
        other = self.of(given, self.name)
        if other is None or other._in_file() != self._in_file():
            raise OnnxExporterError(
                f"{self.name} is quantized with {self} in this program, the call gives {other}; "
                "to fix this, quantize it with these "
                "parameters, or export again with this tensor as the example"
            )
        return given.int_repr().contiguous()

    def with_constants(self) -> Callable[[torch.Tensor], QuantizedTensor]:
        """Return a function that makes quantized tensors of integers."""
        parameters: tuple[Any, Any] = (self.scale, self.zero_point)
        if self.axis is not None:
            parameters = torch.tensor(self.scale), torch.tensor(self.zero_point)
        return lambda integers: QuantizedTensor(integers, *parameters, self.dtype, self.axis)

    def as_json(self) -> str:
        """Return the parameters as JSON."""
        fields = {"scale": self.scale, "zero_point": self.zero_point, "dtype": str(self.dtype).removeprefix("torch.")}
        return json.dumps(fields if self.axis is None else {**fields, "axis": self.axis})

    def __str__(self) -> str:
        return self.as_json()

    def _in_file(self) -> tuple[Any, ...]:
        """Return the parameters as the file has them: scales in float32."""
        return self.dtype, torch.tensor(self.scale, dtype=torch.float32).tolist(), self.zero_point, self.axis


def quantized_inputs(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], forms: Mapping[int, IntegerForm]
) -> PreHook:
    """Return a hook that converts the integers in a call to quantized tensors.

    Args:
        model: The model.
        args, kwargs: The example, with integers.
        forms: The parameters of the quantized inputs, by the index of the leaf.
    """
    if not forms:
        return lambda _module, args, kwargs: (args, kwargs)
    signature = signature_of(model)  # a graph gets keyword arguments by position
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
    by_tensor = {id(leaves[index]): form.with_constants() for index, form in forms.items()}
    leaves_with_path, _ = pytree.tree_flatten_with_path(signature.bind(*args, **kwargs).arguments)
    by_path = {pytree.keystr(path): by_tensor[id(leaf)] for path, leaf in leaves_with_path if id(leaf) in by_tensor}

    def quantize(path: Any, leaf: Any) -> Any:
        stand_in = by_path.get(pytree.keystr(path))
        return leaf if stand_in is None or not isinstance(leaf, torch.Tensor) else stand_in(leaf)

    def pre_hook(_module: Any, args: Any, kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.arguments.update(pytree.tree_map_with_path(quantize, bound.arguments))
        return bound.args, bound.kwargs

    return pre_hook


def integer_outputs(parameters: dict[int, str]) -> Hook:
    """Return a hook that converts the quantized tensors in a result to integers.

    The hook stores the parameters of those outputs in `parameters`, as JSON by the index of the output.
    """

    def forward_hook(_module: Any, _args: Any, result: Any) -> Any:
        leaves, structure = pytree.tree_flatten(result, is_leaf=lambda value: value is None)
        output = 0
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, QuantizedTensor):
                parameters[output] = _form(leaf).as_json()
                leaves[index] = leaf.integers
            if leaf is not None and not isinstance(leaf, str):  # these are constants of the signature
                output += 1
        return pytree.tree_unflatten(leaves, structure) if parameters else result

    return forward_hook


def _form(tensor: QuantizedTensor) -> IntegerForm:
    """Return the parameters of a tensor that is quantized with one scale."""
    if tensor.axis is not None:
        raise CaptureError("the model returns a tensor that is quantized per channel; to fix this, return it dequantized")
    return IntegerForm.of_stand_in(tensor, "")


class WriteParameters(ir.passes.InPlacePass):
    """Store the parameters of quantized inputs and outputs in the model's metadata."""

    def __init__(self, inputs: Mapping[int, Any], outputs: Mapping[int, str]) -> None:
        self._inputs = inputs
        self._outputs = outputs

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Add an entry ``quantized.NAME`` for each quantized input and output."""
        parameters = {form.name: form.as_json() for form in self._inputs.values() if isinstance(form, IntegerForm)}
        parameters |= {str(model.graph.outputs[index].name): text for index, text in self._outputs.items()}
        model.metadata_props.update({f"quantized.{name}": text for name, text in parameters.items()})
        return ir.passes.PassResult(model, modified=bool(parameters))


PreHook: TypeAlias = "Callable[[Any, Any, Any], Any]"
"""From the module, the arguments and the keyword arguments to other arguments."""
Hook: TypeAlias = "Callable[[Any, Any, Any], Any]"
"""From the module, the arguments and the result to another result."""


@contextlib.contextmanager
def hooked(model: torch.nn.Module, before: PreHook, after: Hook) -> Iterator[None]:
    """Call hooks before and after the model's forward."""
    handles = [
        model.register_forward_pre_hook(before, prepend=True, with_kwargs=True),
        model.register_forward_hook(after),
    ]
    graphs = [(model, "_graph", _with_calls(model, before, after))] if isinstance(model, torch.fx.GraphModule) else []
    try:
        with replace_attributes(graphs):
            yield
    finally:
        for handle in handles:
            handle.remove()


def _with_calls(model: torch.fx.GraphModule, before: PreHook, after: Hook) -> torch.fx.Graph:
    """Copy a model's graph with calls of the hooks: torch.export runs its nodes only."""
    graph = torch.fx.Graph()
    placeholders = [node for node in model.graph.nodes if node.op == "placeholder"]
    copies = {node: graph.node_copy(node) for node in placeholders}
    given = graph.call_function(lambda *args: before(model, args, {})[0], tuple(copies.values()))
    copies |= {node: graph.call_function(operator.getitem, (given, index)) for index, node in enumerate(placeholders)}
    for node in model.graph.nodes:
        if node.op == "output":
            result = torch.fx.node.map_arg(node.args[0], copies.__getitem__)
            graph.output(graph.call_function(lambda result: after(model, (), result), (result,)))
        elif node.op != "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return graph
