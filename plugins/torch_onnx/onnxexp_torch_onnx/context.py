"""`g`: the graph context with which a symbolic written for torch.onnx builds ONNX."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

import torch

from onnxexp_torch_onnx.scratch_graph import FOREIGN, ScratchGraph

_SUFFIX = re.compile(r"^(?P<name>.+)_(?P<kind>[ifstgz]|ty)$")
_NAME = re.compile(r"^([^\s:]+::)?[^\s:\d][^\s:]*$")
_IGNORED = ("inplace", "aten")


@dataclasses.dataclass
class GraphContext:
    """The graph under construction, as torch.onnx passes it to a symbolic.

    Other attributes are those of `graph`.

    Attributes:
        graph: The `torch._C.Graph` under construction.
        block: The block to which `op` appends.
        opset: The target opset.
        original_node: The captured node, as a node of a graph of its own.
        params_dict: The model's parameters and constants by name; a value for one has the same `debugName`.
        env: The values of this graph by the captured node's inputs.
        values_in_env: The values in `env`.
        new_nodes: The nodes that `op` made.
    """

    graph: Any
    block: Any
    opset: int
    original_node: Any
    params_dict: dict[str, Any]
    env: dict[Any, Any]
    values_in_env: set[Any]
    new_nodes: list[Any] = dataclasses.field(default_factory=list)
    scratch: ScratchGraph | None = dataclasses.field(default=None, repr=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.graph, name)  # the attributes of torch's graph, as in torch.onnx

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """Make a node.

        Examples: ``g.op("Add", x, y)``, ``g.op("my::Foo", x, alpha_f=0.5, axes_i=[0, 1], outputs=2)``.

        A name without a domain is an ONNX operator. The suffix of a keyword is the attribute's kind (f, i, s, t, g); a list
        makes a list of that kind, and None omits the attribute. Returns a value, or a tuple of `outputs` values if there are
        several.

        Raises:
            ValueError: A keyword has no such suffix, an argument is a value of another graph, or the name is not an operator's.
            LoweringError: The call does not fit the ONNX operator.
        """
        assert self.scratch is not None
        if not _NAME.match(str(opname)) or outputs < 1:
            raise ValueError(
                f"{opname!r} with {outputs} outputs is no operator; write Add or domain::Foo, with at least one output"
            )
        kind = opname if "::" in opname else f"onnx::{opname}"
        inputs = [self.scratch.value(each) for each in raw_args]  # tensors and numbers become constants
        try:
            node = self.block.addNode(kind, inputs)
        except RuntimeError as error:
            if not any(sign in str(error) for sign in FOREIGN):
                raise
            raise ValueError(f"{opname} was given a value of another graph; keep no value between calls") from None
        for _ in range(1, outputs):
            node.addOutput()
        for key, value in sorted(kwargs.items()):
            if key not in _IGNORED and value is not None:
                _set(node, key, value)
        self.new_nodes.append(node)
        self.scratch.emitter.add(node)
        made = tuple(node.outputs())
        return made[0] if outputs == 1 else made

    def aten_op(self, operator: str, *args: Any, overload_name: str = "", **kwargs: Any) -> Any:
        """Make a node of org.pytorch.aten, Caffe2's domain for torch's own operators."""
        return self.op("aten::ATen", *args, operator_s=operator, overload_name_s=overload_name, **kwargs)

    at = aten_op

    def onnxscript_op(self, onnx_fn: Any, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        """Call an onnxscript function, which becomes a model-local function."""
        assert self.scratch is not None
        kind = f"{onnx_fn.opset.domain}::{onnx_fn.name}"
        self.scratch.emitter.functions[kind] = onnx_fn
        return self.op(kind, *raw_args, outputs=outputs, **kwargs)


@dataclasses.dataclass
class SymbolicContext:
    """The first argument of symbolics in torch 1.10 to 1.13."""

    params_dict: dict[str, Any]
    env: dict[Any, Any]
    cur_node: Any
    onnx_block: Any


def add_op_with_blocks(
    graph_context: GraphContext, opname: str, *inputs: Any, outputs: int = 1, n_blocks: int = 1, **attributes: Any
) -> tuple[Any, tuple[GraphContext, ...], Any]:
    """Make a node with blocks (If, Loop).

    Returns its outputs, a `GraphContext` for each block, and the node.
    """
    made = graph_context.op(opname, *inputs, outputs=outputs, **attributes)
    node = (made[0] if isinstance(made, tuple) else made).node()
    contexts = tuple(dataclasses.replace(graph_context, block=node.addBlock()) for _ in range(n_blocks))
    return made, contexts, node


def _set(node: Any, key: str, value: Any) -> None:
    match = _SUFFIX.match(key)
    if match is None:
        raise ValueError(f"{node.kind()}: the attribute {key!r} has no kind: write {key}_f, {key}_i, {key}_s, {key}_t or {key}_g")
    if isinstance(value, torch._C.Value):
        value = _known(node, match["name"], value)
    kind = "t" if isinstance(value, torch.Tensor) and match["kind"] == "z" else match["kind"]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, torch.Tensor, torch._C.Graph)):
        kind, value = f"{kind}s", list(value)
    if isinstance(value, torch.Tensor):
        if kind in ("f", "i"):
            value = value.item()
        else:
            value = value.detach()
    try:
        getattr(node, f"{kind}_")(match["name"], value)  # torch names each writer by its kind
    except TypeError:
        raise ValueError(f"{node.kind()}: {value!r} does not fit the attribute {key}") from None


def _known(node: Any, name: str, value: Any) -> Any:
    """Read the contents of a constant value that was passed as an attribute."""
    source = value.node()
    if source.kind() != "onnx::Constant":
        raise ValueError(f"{node.kind()}: the attribute {name} must be known at export, but it is {value.debugName()}, a value")
    return getattr(source, source.kindOf("value"))("value")
