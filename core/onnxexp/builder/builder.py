"""`op`: the builder of the ONNX graph.

``op.Squeeze(x, axes=[0])`` is right at every opset: the schema of the target opset separates inputs from attributes
(`onnxexp.builder.arguments`), checks dtypes and determines those of the outputs. Nodes with constant inputs are folded
(`onnxexp.builder.constant_folding`), equal nodes and equal constants are shared.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import onnx_ir as ir
import torch

from onnxexp.builder import attributes as attrs
from onnxexp.builder import constant_folding, inference, op_call, operands
from onnxexp.builder.dtypes import type_string
from onnxexp.builder.graph_state import UNKNOWN_DIM, State
from onnxexp.builder.onnx_schemas import Operator, history, operator
from onnxexp.builder.tensor import Tensor
from onnxexp.errors import LoweringError, OpsetError
from onnxexp.graph import Node, Type

__all__ = ["Builder", "Declined"]


class Declined(LoweringError):
    """A symbolic says that it cannot lower this call; the next plugin or torch's decomposition is asked."""


class Builder:
    """Emits ONNX operators at one target opset; every ONNX operator is a method of it.

    Positional arguments are inputs in the schema's order, keywords are inputs or attributes by their ONNX names, None is
    "not given". A Python number among the inputs becomes a constant of the dtype that the operator's type variable is
    bound to; a list that mixes ints and 0-d tensors becomes a 1-D int64 tensor. `outputs=n` asks for n outputs.

    Attributes:
        opset: The target opset of ONNX's default domain.
        fold: May what does not depend on the inputs be computed at export?
        target: "onnxruntime" or "onnx": does it matter what ONNX Runtime has kernels for?
        node: The captured node that is being lowered: its operator, arguments, output types and source line.
        resolve: Looks up a captured argument: what a value of the captured graph is in this one.
        lower: Lowers a call of a torch operator, see `torch_op`.
        params: The captured graph's parameters and constants, by name.
        notes: A place where symbolics remember, for this export, what one has to tell another.
    """

    def __init__(
        self, opset: int, *, custom_opsets: dict[str, int] | None = None, fold: bool = True, target: str = "onnxruntime"
    ) -> None:
        self.opset = opset
        self.target = target
        self.custom_opsets = dict(custom_opsets or {})
        self.state = State(opset)
        self.params: dict[str, torch.Tensor] = {}
        self.notes: dict[Any, Any] = {}
        self.fold = fold
        self.resolve: Callable[[Any], Any] = lambda arg: arg
        self.lower: Callable[[str, Sequence[Any], int | None], Sequence[Any]] | None = None
        self._node: Node | None = None

    @property
    def node(self) -> Node:
        if self._node is None:
            raise LoweringError("op.node is only known while a captured node is being lowered")
        return self._node

    @node.setter
    def node(self, node: Node | None) -> None:
        self._node = node
        self.state.provenance(node)

    @property
    def args(self) -> list[Any]:
        """The arguments of the node that is being lowered, as its symbolic gets them: Tensors and Python constants."""
        return list(self.resolve(self.node.args))

    def close(self) -> None:
        """Release everything once the model is finished.

        Tensors and builder refer to each other. Without this, weights stay in memory until Python's garbage collector runs.
        """
        self.__dict__.clear()

    # Operators

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name[:1].isupper():
            raise AttributeError(f"{type(self).__name__} has no {name}; ONNX operators begin with a capital letter")
        return functools.partial(self.call, "", name)

    def domain(self, domain: str) -> Domain:
        """The operators of another domain: ``op.domain("my.domain").Foo(x, alpha=1.0)``."""
        return Domain(self, domain)

    def call(self, domain: str, name: str, *args: Any, outputs: int | None = None, **kwargs: Any) -> Any:
        """One operator. Returns a Tensor, or a tuple where it has several outputs or `outputs` is given.

        Raises:
            OpsetError: another opset can express this call (see `OpsetError.first_opset`).
            LoweringError: a dtype does not fit.
            TypeError: the call does not fit the operator.
        """
        version = self.opset if domain == "" else self.state.import_domain(domain, self.custom_opsets)
        call = op_call.resolve_call(domain, name, version, args, kwargs, outputs)
        inputs = operands.tensors(self, call.spec, call.inputs, call.dtypes)
        results = self._folded(call, inputs)
        if results is None:
            results = self._emit(domain, name, inputs, call.attributes, call.results, call.spec)
        return results[0] if outputs is None and len(results) == 1 else results

    def takes(self, name: str, dtype: torch.dtype) -> bool:
        """Does ONNX's operator take this dtype at the target opset, as its first input or else output that may have several?"""
        spec = operator("", name, self.opset)
        chosen = next((formal for formal in (*spec.inputs, *spec.outputs) if len(formal.types) > 1), None) if spec else None
        return chosen is not None and type_string(dtype) in chosen.types

    def _folded(self, call: op_call.Call, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...] | None:
        if not self.fold:
            return None
        if any(tensor is not None and tensor.const is None for tensor in inputs):
            return None
        known = [None if tensor is None else tensor.const for tensor in inputs]
        folded = constant_folding.fold(call.spec, call.opset, known, call.attributes, call.results)
        if folded is None:
            return None
        name = next((tensor.name for tensor in inputs if tensor is not None), None)
        return tuple(self.wrap_constant(tensor, name) for tensor in folded)

    def _emit(
        self,
        domain: str,
        name: str,
        inputs: Sequence[Tensor | None],
        attributes: dict[str, ir.Attr],
        dtypes: Sequence[torch.dtype | None],
        spec: Operator | None,
    ) -> tuple[Tensor, ...]:
        values = [None if tensor is None else tensor.value for tensor in inputs]
        comparable = attrs.key(attributes) if spec is not None and spec.deterministic else None
        key = (domain, name, tuple(map(id, values)), comparable, len(dtypes)) if comparable is not None else None
        return self.state.append(self, domain, name, values, attributes, dtypes, key)

    def torch_op(self, name: str, *args: Any, outputs: int | None = None) -> Sequence[Any]:
        """Another torch operator (``"aten::gelu"``), lowered by whoever lowers it in a captured graph.

        `args` are Tensors and Python constants in the order of its schema; defaults may be left out. `outputs` says how many
        tensors come out of one that gives a list, where torch cannot tell it (a split of a size that is not known).

        Returns its outputs.
        """
        if self.lower is None:
            raise LoweringError(f"{name}: torch's operators can be called only while a captured graph is being lowered")
        return self.lower(name, args, outputs)

    def function(self, function: Any, *args: Any, **attributes: Any) -> Any:
        """Call an onnxscript function; it becomes a model-local function of the model, with those that it calls.

        Raises OpsetError where it is written for another opset, at which its operators mean something else.
        """
        from onnxexp.builder.onnxscript_functions import definitions

        found = definitions(function, self.opset, self.custom_opsets)
        definition = found[0]
        for each in found:
            self.state.functions[each.identifier()] = each
            self.state.import_domain(each.domain, self.custom_opsets)
        inputs = [operands.tensor(self, arg) for arg in args]
        encoded = {name: attrs.guess(name, value) for name, value in attributes.items()}
        dtypes = [None] * len(definition.outputs)
        results = self._emit(definition.domain, definition.name, inputs, encoded, dtypes, None)
        return results[0] if len(results) == 1 else results

    # Constants

    def constant(self, value: Any, dtype: torch.dtype | None = None) -> Tensor:
        """A constant from a number, a (nested) list or a torch.Tensor; floats are float32 where no dtype is given."""
        return operands.constant(self, value, dtype)

    def wrap_constant(self, tensor: torch.Tensor, name: str | None = None) -> Tensor:
        """A Tensor whose contents are known; nothing is emitted until it is used."""
        return Tensor(self, None, tensor.dtype, tuple(tensor.shape), tensor, name)

    def deferred(self, compute: Callable[..., torch.Tensor], *sources: Tensor) -> Tensor:
        """A constant that is made of constants when the model is written: no second copy of a weight is held until then.

        `compute` takes the contents of `sources` (torch tensors; once, for dtype and shape, on the meta device) and must
        depend on nothing else. What comes out has no known contents (`Tensor.const` is None).
        """
        contents = [source.const for source in sources]
        if any(tensor is None for tensor in contents):
            raise LoweringError("what is computed when the model is written must be computed from constants alone")
        return self.state.deferred(self, functools.partial(compute, *contents), compute(*map(_meta, contents)), sources[0].name)

    def materialize(self, tensor: Tensor) -> ir.Value:
        """The initializer that holds a constant's contents."""
        assert tensor.const is not None
        return self.state.initializer(tensor.const, tensor.name)

    def cast(self, x: Any, dtype: torch.dtype) -> Tensor:
        """`x` in another dtype; `x` itself where it has it already."""
        if not isinstance(x, Tensor):
            return self.constant(x, dtype)
        if x.dtype == dtype:
            return x
        result = self.Cast(x, to=dtype)
        assert isinstance(result, Tensor)
        return result

    def is_static(self, x: Any) -> bool:
        """Is `x` known at export: a Python value, a Tensor with known contents, or a list of those?"""
        if isinstance(x, (list, tuple)):
            return all(map(self.is_static, x))
        return not isinstance(x, Tensor) or x.const is not None

    def static(self, x: Any, what: str = "an argument") -> Any:
        """The Python value of `x`: a number, or a list. Raises LoweringError naming `what` where it is not known."""
        if isinstance(x, (list, tuple)):
            return [self.static(element, what) for element in x]
        if not isinstance(x, Tensor):
            return x
        if x.const is None:
            raise LoweringError(f"{what} must be known at export, but it depends on the model's inputs ({x!r})")
        return x.const.tolist()

    # Errors

    def decline(self, reason: str) -> NoReturn:
        """Say that this symbolic cannot lower this call, so that the next plugin or torch's decomposition is asked."""
        raise Declined(reason)

    def opset_error(self, reason: str, first_opset: int | None = None) -> NoReturn:
        """Say that the target opset cannot express this call; `first_opset` is the first that can."""
        raise OpsetError(reason, first_opset)

    def error(self, reason: str) -> LoweringError:
        """An error about this call, to raise; the core adds the operator, its arguments and the user's line."""
        return LoweringError(reason)

    # Types

    def infer(self, tensor: Tensor) -> None:
        """Infer dtype and shape of a value from its node, by ONNX's own inference."""
        inference.infer(self, tensor)

    def fresh_dim(self) -> str:
        """The name of a size of which nothing is known."""
        return self.state.names.unique(UNKNOWN_DIM)

    def input(self, name: str, type_: Type) -> Tensor:
        """A new input of the graph that is being built."""
        return self.state.add_input(self, name, type_)

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """Drop the nodes that are emitted inside; the types of their results stay known.

        For code that must know a type before the nodes get their place, in the body of a loop for example.
        """
        from onnxexp.builder import subgraphs

        with subgraphs.nested_scope(self):
            yield

    def as_number(self, tensor: Tensor) -> Tensor:
        """A 0-d tensor as a number of the program, which torch's schemas take for int, float or bool."""
        number = Tensor(self, tensor.value, tensor.dtype, ())
        number.scalar = bool if number.dtype == torch.bool else float if number.dtype.is_floating_point else int
        return number

    # Control flow

    def subgraph(self, name: str, body: Callable[[], Sequence[Any]]) -> ir.Graph:
        """Build the graph of an attribute: `body` adds inputs with `input`, emits nodes, and returns the outputs."""
        from onnxexp.builder import subgraphs

        return subgraphs.graph_of(self, name, body)

    def if_(self, cond: Tensor, then: Callable[[], Sequence[Any]], otherwise: Callable[[], Sequence[Any]]) -> list[Tensor]:
        """``If``: both functions emit their branch and return its values, equally many and of equal dtypes."""
        from onnxexp.builder import subgraphs

        return subgraphs.if_(self, cond, then, otherwise)

    def loop(
        self,
        trip_count: Any,
        cond: Any,
        body: Callable[..., tuple[Any, Sequence[Any], Sequence[Any]]],
        carried: Sequence[Any],
        *,
        types: Sequence[Type] | None = None,
    ) -> list[Tensor]:
        """``Loop``: `body(i, *carried)` returns (condition to go on or None, carried values, values to stack).

        Returns the carried values after the last round, then the stacked ones (a new axis 0). `types` are the carried
        values' types where a size changes from round to round.
        """
        from onnxexp.builder import subgraphs

        return subgraphs.loop(self, trip_count, cond, body, carried, types)

    def scan(
        self,
        body: Callable[..., tuple[Sequence[Any], Sequence[Any]]],
        carried: Sequence[Any],
        xs: Sequence[Tensor],
        *,
        reverse: bool = False,
    ) -> list[Tensor]:
        """``Scan`` over axis 0 of each of `xs`: `body(*carried, *slices)` returns (carried values, values to stack)."""
        from onnxexp.builder import subgraphs

        return subgraphs.scan(self, body, carried, xs, reverse=reverse)


def _meta(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.detach().to("meta")


class Domain:
    """The operators of one domain, by name; `call` takes any.

    Where onnx has no schema: positional inputs, keyword attributes, and results of which nothing is known. What a symbolic
    returns has the type that torch gives it; what it computes on with is told by `Tensor.stamp`.
    """

    def __init__(self, builder: Builder, domain: str) -> None:
        self._builder = builder
        self._domain = domain

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return functools.partial(self.call, name)

    def call(self, name: str, /, *args: Any, outputs: int | None = None, **kwargs: Any) -> Any:
        """One operator; an attribute may be an `onnx_ir.Attr` where the Python value does not determine its type."""
        builder = self._builder
        if history(self._domain, name):
            return builder.call(self._domain, name, *args, outputs=outputs, **kwargs)
        builder.state.import_domain(self._domain, builder.custom_opsets)
        inputs = [None if arg is None else operands.tensor(builder, arg) for arg in args]
        encoded = {key: attrs.guess(key, value) for key, value in kwargs.items() if value is not None}
        results = builder._emit(self._domain, name, inputs, encoded, [None] * (outputs or 1), None)
        return results[0] if outputs is None else results
