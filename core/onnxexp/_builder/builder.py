"""The builder of the ONNX graph, `op` in symbolics.

``op.Squeeze(x, axes=[0])`` is right at every opset: the schema of the target opset separates inputs from attributes
(`onnxexp._builder.resolve_call`), checks dtypes and determines those of the outputs. Nodes with constant inputs are folded
(`onnxexp._builder.constant_folding`), and equal nodes and equal constants are shared.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import onnx_ir as ir
import torch

from onnxexp._builder import attributes as attrs
from onnxexp._builder import constant_folding, inference, operands
from onnxexp._builder.dtypes import type_string
from onnxexp._builder.graph_state import GraphState
from onnxexp._builder.onnx_schemas import history, operator
from onnxexp._builder.onnxscript_functions import onnxscript_functions
from onnxexp._builder.producer import Producer, find_producer
from onnxexp._builder.resolve_call import OperatorCall, resolve_call
from onnxexp._builder.subgraphs import ControlFlow
from onnxexp._builder.symbolic_sizes import compute_size
from onnxexp._builder.tensor import Tensor
from onnxexp._errors import LoweringError, OpsetError
from onnxexp._neutral_graph import Dim, Node, Type
from onnxexp._request.export_context import ExportContext
from onnxexp._symbolic_size import SymbolicSize


class Declined(LoweringError):
    """A symbolic cannot lower this call.

    The next plugin or a decomposition lowers it instead.
    """


class Builder(ControlFlow):
    """The builder of ONNX nodes at one target opset, with a method for every operator.

    Positional arguments are inputs in the schema's order, keywords are inputs or attributes by their ONNX names, None is
    "not given". A Python number among the inputs becomes a constant of the dtype that the operator's type variable is
    bound to; a list that mixes ints and 0-d tensors becomes a 1-D int64 tensor. `outputs=n` requests n outputs.

    Attributes:
        opset: The target opset of ONNX's default domain.
        custom_opsets: The versions at which the user imports other domains.
        fold: Whether computations on constants are folded at export.
        target: "onnxruntime" where a symbolic avoids operators that ONNX Runtime has no kernel for, else "onnx".
        params: The captured graph's parameters and constants, by name.
    """

    def __init__(
        self,
        opset: int,
        *,
        custom_opsets: dict[str, int] | None = None,
        fold: bool = True,
        target: str = "onnxruntime",
        context: ExportContext | None = None,
    ) -> None:
        self.opset = opset
        self.target = target
        self.custom_opsets = dict(custom_opsets or {})
        self.params: dict[str, torch.Tensor] = {}
        self.fold = fold
        self._state = GraphState(opset, self.custom_opsets, functools.partial(Tensor, self))
        self._context = context
        self._node: Node | None = None
        self._resolve: Callable[[Any], Any] = lambda arg: arg
        self._lower: Callable[[str, Sequence[Any], int | None], Sequence[Any]] | None = None

    # The export and the captured graph

    @property
    def context(self) -> ExportContext:
        """The export's options and the plugins' data, see `ExportContext`.

        Raises LoweringError outside an export.
        """
        if self._context is None:
            raise LoweringError("op.context exists only during an export")
        return self._context

    @property
    def node(self) -> Node:
        """The captured node being lowered: operator, arguments, types and source line."""
        if self._node is None:
            raise LoweringError("op.node exists only while a captured node is being lowered")
        return self._node

    @property
    def args(self) -> list[Any]:
        """The arguments of the node being lowered: Tensors and Python constants."""
        return list(self._resolve(self.node.args))

    # The ONNX graph so far

    def producer(self, x: Tensor) -> Producer | None:
        """Return the ONNX node that makes `x`, or None for constants and graph inputs."""
        return find_producer(self._state, x)

    @property
    def graph_inputs(self) -> list[Tensor]:
        """The inputs of the model, in order."""
        return [self._state.tensors[value] for value in self._state.main.inputs]

    def size_of(self, size: Dim) -> int | Tensor | None:
        """Return a captured size (``batch``, ``2*batch + 1``) as a number or 0-d tensor.

        The tensor is int64. Returns None where the size does not follow from the sizes of the model's inputs.
        """
        return compute_size(self, self.graph_inputs, size)

    # Operators

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name[:1].isupper():
            raise AttributeError(f"{type(self).__name__} has no {name}; ONNX operators begin with a capital letter")
        return functools.partial(self.call, "", name)

    def domain(self, domain: str, version: int | None = None) -> Domain:
        """Return the operators of another domain.

        ``op.domain("my.domain").Foo(x, alpha=1.0)`` calls one. `version` is imported where the user's `custom_opsets` lack the
        domain. Raises LoweringError where the model imports another version.
        """
        if version is not None and (imported := self._state.import_domain(domain, version)) != version:
            raise LoweringError(
                f"this needs version {version} of {domain}, and the model imports {imported}: choose one with custom_opsets"
            )
        return Domain(self, domain)

    def call(self, domain: str, name: str, /, *args: Any, outputs: int | None = None, **kwargs: Any) -> Any:
        """Call one operator.

        Returns a Tensor, or a tuple where the operator has several outputs or `outputs` is given.

        Raises:
            OpsetError: another opset can express this call (see `OpsetError.first_opset`).
            LoweringError: a dtype does not fit.
            TypeError: the call does not fit the operator.
        """
        version = self.opset if domain == "" else self._state.import_domain(domain)
        call = resolve_call(domain, name, version, args, kwargs, outputs)
        inputs = operands.tensors(self, call.spec, call.inputs, call.dtypes)
        if (results := self._folded(call, inputs)) is None:
            results = self._emit(call, inputs)
        return results[0] if outputs is None and len(results) == 1 else results

    def takes(self, name: str, dtype: torch.dtype) -> bool:
        """Return whether ONNX's operator takes this dtype at the target opset.

        The first input or output that allows several dtypes decides.
        """
        spec = operator("", name, self.opset)
        chosen = next((formal for formal in (*spec.inputs, *spec.outputs) if len(formal.types) > 1), None) if spec else None
        return chosen is not None and type_string(dtype) in chosen.types

    def _folded(self, call: OperatorCall, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...] | None:
        if not self.fold or any(tensor is not None and tensor.const is None for tensor in inputs):
            return None
        known = [None if tensor is None else tensor.const for tensor in inputs]
        if (folded := constant_folding.fold(call.spec, call.opset, known, call.attributes, call.results)) is None:
            return None
        name = next((tensor.name for tensor in inputs if tensor is not None), None)
        return tuple(self.wrap_constant(tensor, name) for tensor in folded)

    def _emit(self, call: OperatorCall, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        values = [None if tensor is None else tensor.value for tensor in inputs]
        comparable = attrs.key(call.attributes) if call.spec.deterministic else None
        domain, name = call.spec.domain, call.spec.name
        key = (domain, name, tuple(map(id, values)), comparable, len(call.results)) if comparable is not None else None
        return self._state.append(domain, name, values, call.attributes, call.results, key)

    def emit(
        self, domain: str, name: str, inputs: Sequence[Any], attributes: Mapping[str, Any], outputs: int = 1
    ) -> tuple[Tensor, ...]:
        """Emit a node of an operator without a schema, with results of unknown types.

        `attributes` are Python values or `onnx_ir.Attr`; those that are None are left out.
        """
        self._state.import_domain(domain)
        values = [None if arg is None else operands.tensor(self, arg).value for arg in inputs]
        encoded = {key: attrs.guess(key, value) for key, value in attributes.items() if value is not None}
        return self._state.append(domain, name, values, encoded, [None] * outputs)

    def torch_op(self, name: str, *args: Any, outputs: int | None = None) -> Sequence[Any]:
        """Lower a call of another torch operator (``"aten::gelu"``) to its results.

        `args` are Tensors and Python constants in the order of its schema; defaults may be left out. `outputs` is the length of
        a returned list where it does not follow from the arguments (a split of an unknown size).
        """
        if self._lower is None:
            raise LoweringError(f"{name}: torch's operators can be called only while a captured graph is being lowered")
        return self._lower(name, args, outputs)

    def function(self, function: Any, *args: Any, **attributes: Any) -> Any:
        """Call an onnxscript function, which becomes a model-local function.

        The functions that it calls are added too. Raises OpsetError where the function is written for another opset, at which its
        operators have another meaning.
        """
        found = onnxscript_functions(function, self.opset, self.custom_opsets)
        definition = found[0]
        for each in found:
            self._state.functions[each.identifier()] = each
            self._state.import_domain(each.domain)
        results = self.emit(definition.domain, definition.name, args, attributes, len(definition.outputs))
        return results[0] if len(results) == 1 else results

    # Constants

    def constant(self, value: Any, dtype: torch.dtype | None = None) -> Tensor:
        """Create a constant from a number, a (nested) list or a torch.Tensor.

        Python floats are float32 where no dtype is given.
        """
        return operands.constant(self, value, dtype)

    def wrap_constant(self, tensor: torch.Tensor, name: str | None = None) -> Tensor:
        """Wrap known contents in a Tensor, which emits nothing until it is used."""
        return Tensor(self, None, tensor.dtype, tuple(tensor.shape), tensor, name)

    def deferred(self, compute: Callable[..., torch.Tensor], *sources: Tensor) -> Tensor:
        """Create a constant that is computed from constants when the model is written.

        No second copy of a weight exists until then. `compute` takes the contents of `sources` (torch tensors; once, for dtype
        and shape, on the meta device) and must depend on nothing else. The result has no known contents (`Tensor.const` is None).
        """
        contents = [source.const for source in sources if source.const is not None]
        if len(contents) < len(sources):
            raise LoweringError("op.deferred takes constants only: a source depends on the model's inputs")
        example = compute(*(tensor.detach().to("meta") for tensor in contents))
        return self._state.deferred(functools.partial(compute, *contents), example, sources[0].name)

    def materialize(self, tensor: Tensor) -> ir.Value:
        """Return the initializer of a constant."""
        assert tensor.const is not None
        return self._state.initializer(tensor.const, tensor.name)

    def cast(self, x: Any, dtype: torch.dtype) -> Tensor:
        """Cast `x` to a dtype, and return `x` itself where it has that dtype."""
        if not isinstance(x, Tensor):
            return self.constant(x, dtype)
        if x.dtype == dtype:
            return x
        result = self.Cast(x, to=dtype)
        assert isinstance(result, Tensor)
        return result

    def is_static(self, x: Any) -> bool:
        """Return whether `x` or each element of a list is a number or has known contents."""
        if isinstance(x, (list, tuple)):
            return all(map(self.is_static, x))
        return not isinstance(x, Tensor) or x.const is not None

    def static(self, x: Any, what: str = "an argument") -> Any:
        """Return the Python value of `x`.

        Raises LoweringError where the value is unknown; `what` names the argument in the message.
        """
        if isinstance(x, (list, tuple)):
            return [self.static(element, what) for element in x]
        if not isinstance(x, Tensor):
            return x
        if x.const is None:
            raise LoweringError(f"{what} must be known at export, but it depends on the model's inputs ({x!r})")
        return x.const.tolist()

    # Errors

    def decline(self, reason: str) -> NoReturn:
        """Leave this call to the next plugin or to torch's decomposition."""
        raise Declined(reason)

    def opset_error(self, reason: str, first_opset: int | None = None) -> NoReturn:
        """Refuse a call that the target opset cannot express, unlike `first_opset`."""
        raise OpsetError(reason, first_opset)

    def error(self, reason: str) -> LoweringError:
        """Create an error, to which the core adds operator, arguments and source line."""
        return LoweringError(reason)

    # Types

    def infer(self, tensor: Tensor) -> None:
        """Infer dtype and shape of a value from its node, by ONNX's own inference."""
        inference.infer(self._state, tensor)

    def fresh_dim(self) -> SymbolicSize:
        """Return a new name for an unknown size."""
        return self._state.fresh_dim()

    def input(self, name: str, type_: Type, dtype: torch.dtype | None = None) -> Tensor:
        """Add an input to the graph that receives nodes now.

        `dtype` is for a Python number whose tensor has another dtype than torch's default for the number.
        """
        return self._state.add_input(name, type_, dtype)

    def trial(self) -> contextlib.AbstractContextManager[object]:
        """Drop the nodes that are emitted inside the `with`, and keep the results' types.

        A caller can find a type before the nodes get their place, for example in the body of a loop.
        """
        return self._state.nested()

    def as_number(self, tensor: Tensor) -> Tensor:
        """Mark a 0-d tensor as a number, which torch's schemas take for Python numbers."""
        number = Tensor(self, tensor.value, tensor.dtype, ())
        number.scalar = bool if number.dtype == torch.bool else float if number.dtype.is_floating_point else int
        return number


class Domain:
    """The operators of one domain, by name.

    Operators without a schema take positional inputs and keyword attributes, and their results have unknown types. A symbolic's
    results get the types that torch computed. Set the type of a result that the symbolic computes on with `Tensor.stamp`.
    """

    def __init__(self, builder: Builder, domain: str) -> None:
        self._builder = builder
        self._domain = domain

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return functools.partial(self.call, name)

    def call(self, name: str, /, *args: Any, outputs: int | None = None, **kwargs: Any) -> Any:
        if history(self._domain, name):
            return self._builder.call(self._domain, name, *args, outputs=outputs, **kwargs)
        results = self._builder.emit(self._domain, name, args, kwargs, outputs or 1)
        return results[0] if outputs is None else results


def state_of(builder: Builder) -> GraphState:
    """Return the model under construction, for the core only."""
    return builder._state
