"""Convert the nodes of a TorchScript graph to the neutral graph, one by one.

Numbers, lists, tuples and modules that are known at export are Python objects; everything else is a `Value`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from onnxexp import CaptureError, OnnxExporterError
from onnxexp.graph import Graph, Node, ScalarType, SourceLocation, TensorType, Value, values_in
from onnxexp.rewriting import UniqueNames
from onnxexp_torchscript.conversion import python_numbers
from onnxexp_torchscript.conversion.export_time_values import Items, Journal, Maybe, Module, Presence, Text
from onnxexp_torchscript.conversion.python_numbers import Number
from onnxexp_torchscript.jit.jit_nodes import ATOMS, inputs, nodes, outputs, recorded, unpacked
from onnxexp_torchscript.jit.jit_schemas import Call, changes_shape, named
from onnxexp_torchscript.jit.source_locations import Places
from onnxexp_torchscript.types.abstract_tensor import UNKNOWN, AbstractTensor
from onnxexp_torchscript.types.type_inference import TypeInference

_NO_SCHEMA = "(no schema)"
_OF_DEBUGGING = ("profiler::", "rpc::_record")
Rewritten: TypeAlias = tuple[str, list[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Tables:
    """The handlers of nodes and calls; each takes the interpreter first.

    Attributes:
        handlers: By the node's kind; each returns the values of the node's outputs.
        python: By the operator's name, with or without its overload; NotImplemented leaves the call to torch's operator.
        of_text: Operators that may take a text that is known only at run time.
        rewrites: The name and arguments under which torch.export has a call, by the operator's full name.
        pieces: The results of an operator that returns a list whose length depends on a size.
        held: The values of a module's attribute, from TorchScript's object and its path.
        with_optionals: The result of a call with arguments that may be None, from its schema, arguments and function.
    """

    handlers: Mapping[str, Callable[[Interpreter, Any], list[Any]]]
    python: Mapping[str, Callable[..., Any]]
    of_text: frozenset[str]
    rewrites: Mapping[str, str | Callable[[Interpreter, str, list[Any]], Rewritten]]
    pieces: Callable[[Interpreter, Call, Any, Sequence[Any]], Any]
    held: Callable[[Interpreter, Any, str], Any]
    with_optionals: Callable[[Interpreter, str, list[Any], Callable[[list[Any]], Any]], Any]


class Interpreter:
    """The conversion of one graph.

    Attributes:
        graph: The graph that nodes are appended to: the root, or a block.
        root: The whole graph.
        env: The converted values of the TorchScript graph, by number.
        sizes: The type inference.
        tables: The handlers of nodes and calls.
        presence: The optional values that are None, or are not, in the branch that is converted.
        traced: Whether the graph has recorded types.
        node: The TorchScript node that is converted.
        changed: The attributes that the program sets.
        kept: Places where a size is fixed to the example's, as texts.
        not_one: Sizes that are not 1 in the example, as the graph requires, each with its first place.
        only_one: Computed sizes that are 1 in the example, as the graph requires.
        unraised: Places where the program raises for some inputs, as texts: ONNX has no exceptions.
    """

    def __init__(self, sizes: TypeInference, places: Places, tables: Tables, *, traced: bool) -> None:
        self.sizes = sizes
        self.tables = tables
        self.traced = traced
        self.root = self.graph = Graph()
        self.env: dict[int, Any] = {}
        self.journal = Journal()
        self.presence = Presence()
        self.attributes: dict[tuple[str, str], Any] = {}
        self.modules: dict[str, Module] = {}
        self.changed: dict[str, None] = {}
        self.kept: dict[str, None] = {}
        self.not_one: dict[Any, SourceLocation] = {}
        self.only_one: dict[Any, None] = {}
        self.unraised: dict[str, None] = {}
        self._places = places
        self.node: Any = None
        self._names = UniqueNames()
        self._params: dict[Any, Value] = {}
        self._sizes_asked: dict[tuple[Value, int], Any] = {}

    # The graph

    def block(self, block: Any) -> list[Any]:
        """Convert the nodes of a block whose inputs are in `env`; return its outputs."""
        for node in nodes(block):
            if node.kind() == "prim::Constant" and type(held := node.output().toIValue()) in ATOMS:
                self.env[node.output().unique()] = held
            else:
                self.step(node)
        return self.args(block.returnNode())

    def step(self, node: Any) -> None:
        """Convert one node and bind its outputs."""
        outer, self.node = self.node, node
        handler = self.tables.handlers.get(node.kind())
        try:
            results = handler(self, node) if handler is not None else [self._call(node)]
        except OnnxExporterError:
            raise
        except Exception as error:
            what = f"TorchScript's {node.kind()} cannot be read: {type(error).__name__}: {error}"
            raise self.refuse(what, "write that part with operators on tensors") from error
        finally:
            self.node = outer
        values = outputs(node)
        results = results[0] if len(values) > 1 and len(results) == 1 else results
        for value, result in zip(values, results, strict=False):
            self.env[value.unique()] = result
            if self.traced and isinstance(result, Value) and (type_ := recorded(value)):
                self.sizes.unbacked.observe(self.sizes.of(result), type_)

    def args(self, node: Any) -> list[Any]:
        """Look up a node's inputs."""
        return [self.env[value.unique()] for value in inputs(node)]

    @property
    def where(self) -> SourceLocation:
        """The place of the current node."""
        return SourceLocation() if self.node is None else self._places.of(self.node)

    def at(self, node: Any) -> Interpreter:
        """Set the node that errors refer to."""
        self.node = node
        return self

    def refuse(self, what: str, fix: str) -> CaptureError:
        """Create the error for an unsupported construct."""
        return CaptureError(f"{what}; to fix this, {fix}" + (f"\n  at {self.where}" if str(self.where) else ""))

    def name(self, op: str) -> str:
        """Make a unique name from an operator's: ``add``, ``add_1``, …"""
        return self._names.unique(op.partition("::")[2].partition(".")[0])

    @contextlib.contextmanager
    def writing_to(self, graph: Graph) -> Iterator[None]:
        """Append nodes to this graph inside the context."""
        outer, self.graph = self.graph, graph
        try:
            yield
        finally:
            self.graph = outer

    def forget(self, nodes: list[Node]) -> None:
        """Drop cached sizes that nodes taken back have computed."""
        if self.graph is self.root:
            kept = {output for node in nodes for output in node.outputs}
            self._sizes_asked = {key: value for key, value in self._sizes_asked.items() if value in kept}

    def items(
        self, ivalues: Iterable[Any] = (), sequence: Value | None = None, element: Any = None, axis: int | None = None
    ) -> Items:
        """Create a list."""
        made = Items(ivalues, sequence, element, axis)
        self.journal.created(made)
        return made

    def truth(self, condition: Any) -> bool | None:
        """Return a condition's value, or None if only the run time determines it."""
        if not isinstance(condition, Value):
            return bool(condition)
        return self.presence.truth(self.sizes.of(condition))

    def module(self, module: Module) -> Module:
        return self.modules.setdefault(module.path, module)

    def unpacks(self) -> bool:
        """Return whether the node's list is unpacked into a fixed number of pieces."""
        uses = self.node.output().uses()
        return bool(uses) and all(use.user.kind() == "prim::ListUnpack" for use in uses)

    def operators(self, name: str) -> Callable[..., Any]:
        """Compute an operator in Python."""
        return self.tables.python[name]

    def stored(self, path: str, name: str) -> Any:
        """Return a module's attribute, as the program last set it."""
        if (path, name) in self.attributes:
            return self.attributes[path, name]
        held = self.tables.held(self, self.modules[path].object.getattr(name), f"{path}.{name}" if path else name)
        if isinstance(held, (Items, dict)):
            self.attributes[path, name] = held  # the same list each time
        return held

    # Calls

    def _call(self, node: Any) -> Any:
        schema = node.schema()
        if schema == _NO_SCHEMA:
            raise self.refuse(
                f"TorchScript's {node.kind()} has no counterpart in ONNX", "write that part with operators on tensors"
            )
        name = schema.partition("(")[0]
        packet = name.partition(".")[0]
        if packet.startswith(_OF_DEBUGGING):
            return None
        args = self.args(node)
        if "__is" not in packet and any(isinstance(arg, Maybe) for arg in args):
            return self.tables.with_optionals(self, schema, args, lambda given: self._called(node, name, packet, given))
        return self._called(node, name, packet, args)

    def _called(self, node: Any, name: str, packet: str, args: list[Any]) -> Any:
        python = self.tables.python.get(name) or self.tables.python.get(packet)
        if packet not in self.tables.of_text and any(isinstance(arg, Text) for arg in args):
            raise self.refuse(
                f"{packet} reads a text that is known only at run time", "decide by numbers; text can be printed or raised"
            )
        if python_numbers.computes(packet, args):
            return python_numbers.compute(self, packet, args)
        if python is not None:
            result = python(self, *args)
            if result is not NotImplemented:
                return result
        other = self.tables.rewrites.get(name, name)
        name, args = (other, args) if isinstance(other, str) else other(self, name, args)
        return self.emit(name, args, None if python_numbers.meets_scalars(args) else node)

    def emit(self, name: str, args: Sequence[Any], node: Any = None) -> Any:
        """Emit a call of a torch operator; return its value, or the list of its values.

        `node` is the TorchScript node if its outputs are those of the call: a trace has recorded their types.
        """
        call = named(name)
        if call.op is None:
            raise self.refuse(f"TorchScript's {name} has no counterpart in ONNX", "write that part with operators on tensors")
        bound = self.bound(call, args)
        if call.writes:
            self.sizes.unbacked.forget()
            if changes_shape(name):
                self._sizes_asked = {key: size for key, size in self._sizes_asked.items() if key[0] is not bound[0]}
        if node is not None and self.traced and not call.depends and not self._is_dynamic(bound):
            types = [recorded(value) for value in (unpacked(node) if call.lists else outputs(node))]
            if all(types) and (types or not call.lists):
                made = [Value(self.name(name), type_) for type_ in types if type_ is not None]
                self.append(name, bound, made)
                return made[0] if len(made) == 1 and not call.lists else made
        where = self.where
        fake = self.sizes.run(call.op, name, bound, where, local=self.graph is not self.root)
        if fake is UNKNOWN:
            fake = self._guessed(call, node, bound)
        if name == "aten::_pack_padded_sequence" and isinstance(fake, (list, tuple)):
            results = self.results(name, fake)
            packed = self.sizes.of(bound[0])
            if packed is not UNKNOWN:
                self.sizes.packed.note(results[1], packed.shape[0 if bound[2] else 1])
        elif isinstance(fake, (bool, int, float)) or fake is None:
            return fake
        else:
            results = self.results(name, fake)
        self.append(name, bound, values_in(results), where)
        return bound[0] if call.writes and changes_shape(name) else results  # one tensor, whose shape later calls change as well

    def append(self, name: str, args: Any, made: list[Value], where: SourceLocation | None = None, blocks: Any = ()) -> None:
        """Append a node."""
        self.graph.nodes.append(Node(name, args, made, list(blocks), where or self.where))

    def results(self, name: str, fake: Any) -> Any:
        """Create the values for the result of a fake call."""
        if isinstance(fake, (list, tuple)):
            return [self.results(name, element) for element in fake]
        return self.value(name, fake)

    def value(self, name: str, fake: Any) -> Value:
        """Create the value of a fake, of a type (a tensor of unknown rank), or of UNKNOWN."""
        if isinstance(fake, TensorType):
            return Value(self.name(name), fake)
        made = Value(self.name(name), TensorType(None, None) if fake is UNKNOWN else self.sizes.type_of(fake))
        if not isinstance(fake, AbstractTensor) or any(isinstance(size, torch.SymInt) for size in fake.shape):
            self.sizes.record(made, fake)
        return made

    def bound(self, call: Call, args: Sequence[Any]) -> list[Any]:
        """Bind the arguments of a call to its schema."""
        bound = [self.neutral(arg) for arg in self._numbers_as_tensors(call, args)]
        for index, table in call.counted:
            if index < len(bound) and type(bound[index]) is int:
                bound[index] = table[bound[index]]
        return bound + call.defaults(len(bound))

    def _numbers_as_tensors(self, call: Call, args: Sequence[Any]) -> list[Any]:
        """Convert numbers to tensors where the schema has tensors."""
        if call.pointwise and any(index in call.tensors and isinstance(arg, Value) for index, arg in enumerate(args)):
            return list(args)
        return [
            self._as_tensors(arg) if index in call.tensors or index in call.tensor_lists else arg
            for index, arg in enumerate(args)
        ]

    def _as_tensors(self, arg: Any) -> Any:
        if isinstance(arg, (list, tuple)) and not (isinstance(arg, Items) and arg.sequence is not None):
            return [self._as_tensors(element) for element in arg]
        return python_numbers.as_tensor(self, arg) if isinstance(arg, Number) else arg

    def neutral(self, arg: Any) -> Any:
        """Convert an argument to a neutral graph's: Python lists, unwrapped numbers."""
        if isinstance(arg, Items) and arg.sequence is not None:
            raise self.refuse("an operator takes a list of unknown length", "pass torch.stack or torch.cat of the list")
        if isinstance(arg, (list, tuple)):
            return [self.neutral(element) for element in arg]
        return python_numbers.unwrap(arg)

    def _is_dynamic(self, args: Sequence[Any]) -> bool:
        return any(self.sizes.dynamic(value) or isinstance(value.type, ScalarType) for value in values_in(args))

    def _guessed(self, call: Call, node: Any, args: list[Any]) -> Any:
        """Take the dtype and rank from the trace, where fake kernels fail."""
        values = outputs(node) if node is not None else []
        types = [recorded(value) if self.traced else None for value in values]
        any_sizes = self.sizes.unbacked.tensor
        fakes = [
            UNKNOWN if type_ is None or type_.dtype is None else any_sizes(type_.dtype, [None] * len(type_.sizes or ()))
            for type_ in types
        ]
        if call.lists:
            return self.tables.pieces(self, call, node, args)
        returns = len(call.op._schema.returns) if call.op is not None else 1
        if not self.traced and call.op is not None and returns == 1:
            return self.sizes.of_any_rank(call.op, call.name, args)
        fakes = fakes if len(fakes) == returns else [UNKNOWN] * returns
        return fakes[0] if len(fakes) == 1 else fakes

    # Numbers

    def number(self, name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Compute in Python if all numbers are known, else emit a node."""
        if not any(isinstance(arg, Value) for arg in args):
            return function(*args)
        args = python_numbers.operands(self, name, args)
        kinds = [python_numbers.kind_of_argument(arg) for arg in args]
        fakes = [self.sizes.of(arg) if isinstance(arg, Value) else arg for arg in args]
        fake = self.sizes.unbacked.computed(function, fakes, python_numbers.kind_of_result(name, kinds))
        constant = python_numbers.known(fake)
        if constant is not None:
            return constant
        overload = "float" if float in kinds else "bool" if all(kind is bool for kind in kinds) else "int"
        output = Value(self.name(name), self.sizes.type_of(fake))
        self.sizes.record(output, fake)
        self.append(f"{name}.{overload}", list(args), [output])
        return output

    def size(self, tensor: Any, dim: Any) -> Any:
        """Return one size of a tensor: a number, or the value of a size node."""
        if isinstance(tensor, Number):
            raise self.refuse("the program reads a size of a number", "read it of a tensor")
        rank = self.rank(tensor)
        if rank is None or not isinstance(dim, int):
            return self._asked(tensor, dim, self.sizes.unbacked.any_number(int))
        dim = dim % rank if rank else dim
        size = self.sizes.shape_of(tensor)[dim]
        constant = python_numbers.known(size)
        return constant if constant is not None else self._asked(tensor, dim, size)

    def _asked(self, tensor: Value, dim: Any, size: Any) -> Value:
        known = self._sizes_asked.get((tensor, dim)) if self.graph is self.root and isinstance(dim, int) else None
        if known is not None:
            return known  # type: ignore[no-any-return]
        output = Value(self.name("aten::sym_size"), ScalarType(int))
        self.sizes.record(output, size)
        self.append("aten::sym_size.int", [tensor, dim], [output])
        if self.graph is self.root:
            self._sizes_asked[tensor, dim] = output
        return output

    def rank(self, tensor: Any) -> int | None:
        """Return the rank of a tensor, or None if unknown."""
        if isinstance(tensor, Number):
            return 0
        shape = self.sizes.shape_of(tensor)
        return None if shape is None else len(shape)

    # Constants

    def constant(self, tensor: torch.Tensor, name: str = "") -> Value:
        """Return the value of a parameter, buffer or constant; one per storage."""
        dtype, sizes = tensor.dtype, tuple(tensor.shape)
        storage = tensor.untyped_storage()._cdata  # fake and empty tensors have one, too
        key = (storage, tensor.storage_offset(), dtype, sizes, tensor.stride())
        known = self._params.get(key) if name else None
        if known is not None:
            return known
        value = Value(name or self.name("prim::lifted_tensor"), TensorType(dtype, sizes))
        self.root.params[value] = tensor.detach()
        if name:
            self._params[key] = value
        return value
