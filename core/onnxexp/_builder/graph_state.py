"""The model under construction: nested scopes, initializers, names, provenance."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import onnx_ir as ir
import torch

from onnxexp._builder.dtypes import dtype_of_number, onnx_dtype
from onnxexp._builder.tensor import Tensor
from onnxexp._builder.torch_tensor_data import TorchTensor
from onnxexp._neutral_graph import Node, ScalarType, Type, ir_shape
from onnxexp._request.unique_names import UniqueNames
from onnxexp._symbolic_size import UNKNOWN, SymbolicSize

"""The prefix of unknown sizes' names while the model is built; the model itself leaves such sizes unnamed."""
_SMALL = 4096
"""Bytes up to which constants are compared by contents; larger ones by storage, offset and strides."""
_ODD = re.compile(r"[^0-9A-Za-z_.:/\-]+")


@dataclasses.dataclass(slots=True, eq=False)
class Scope:
    """The inputs and nodes of one graph; `seen` includes nodes of enclosing graphs."""

    seen: ChainMap[Any, tuple[Tensor, ...]] = dataclasses.field(default_factory=ChainMap)
    inputs: list[ir.Value] = dataclasses.field(default_factory=list)
    nodes: list[ir.Node] = dataclasses.field(default_factory=list)


class Provenance(NamedTuple):
    """The names and metadata of the ONNX nodes that a captured node lowers to."""

    node_prefix: str = ""
    value_base: str = ""
    captured: Mapping[str, str] = MappingProxyType({})
    plugin: str = "core"
    symbolic: str = ""

    @classmethod
    def of(cls, node: Node) -> Provenance:
        """Return the provenance of one captured node."""
        where = node.where
        base = node.outputs[0].name if node.outputs else node.op
        captured = {"onnxexp.op": node.op, "onnxexp.node": base}
        if where.scope:
            captured["onnxexp.scope"] = where.scope
        if where.module:
            captured["onnxexp.module"] = where.module
        if where.file:
            file = where.file.replace("\\", "/").rsplit("/", 1)[-1]
            captured["onnxexp.source"] = f"{file}:{where.line}"
        return cls(f"{where.scope}/" if where.scope else "", base, captured, "")

    def lowered_by(self, plugin: str, symbolic: str) -> Provenance:
        """Return the provenance of the nodes that a plugin's symbolic makes."""
        return Provenance(self.node_prefix, self.value_base, self.captured, plugin, symbolic)

    def metadata(self) -> dict[str, str]:
        """Return the metadata of a node."""
        made = dict(self.captured)
        if self.plugin:
            made["onnxexp.plugin"] = self.plugin
        if self.symbolic:
            made["onnxexp.symbolic"] = self.symbolic
        return made


class GraphState:
    """The parts of the model under construction: `main` is its own graph's scope.

    Args:
        opset: The version of ONNX's default domain.
        custom_opsets: The versions at which the user imports other domains.
        make_tensor: Makes a `Tensor` of an onnx-ir value, a dtype and a shape.
    """

    def __init__(self, opset: int, custom_opsets: Mapping[str, int], make_tensor: Callable[..., Tensor]) -> None:
        self.opset_imports: dict[str, int] = {"": opset}
        self.functions: dict[ir.OperatorIdentifier, ir.Function] = {}
        self.initializers: dict[Any, ir.Value] = {}
        self.names = UniqueNames()
        self.node_names = UniqueNames()
        self.main = self.scope = Scope()
        self.tensors: dict[ir.Value, Tensor] = {}
        self.inferred: set[ir.Node] = set()
        self.provenance = Provenance()
        self._custom_opsets = custom_opsets
        self._make_tensor = make_tensor

    def import_domain(self, domain: str, default: int = 1) -> int:
        """Return the version of a domain's import: the user's, else the first default."""
        return self.opset_imports.setdefault(domain, self._custom_opsets.get(domain, default))

    def fresh_dim(self) -> SymbolicSize:
        """Return a name for an unknown size."""
        return SymbolicSize(self.names.unique(UNKNOWN))

    @contextlib.contextmanager
    def nested(self) -> Iterator[Scope]:
        """Emit into a new scope inside."""
        outer = self.scope
        self.scope = Scope(outer.seen.new_child())
        try:
            yield self.scope
        finally:
            self.scope = outer

    def append(
        self,
        domain: str,
        name: str,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, ir.Attr],
        dtypes: Sequence[torch.dtype | None],
        key: Any = None,
    ) -> tuple[Tensor, ...]:
        """Append a node, or return an equal one's results; `key` None prevents sharing."""
        if (shared := self.scope.seen.get(key)) is not None:
            return shared
        made_for = self.provenance
        base = f"{made_for.value_base}_{name}" if made_for.value_base else name
        outputs = [ir.Value(name=self.names.unique(base)) for _ in dtypes]
        node = ir.Node(
            domain,
            name,
            inputs,
            attributes,
            outputs=outputs,
            name=self.node_names.unique(made_for.node_prefix + name),
            metadata_props=made_for.metadata(),
        )
        self.scope.nodes.append(node)
        results = tuple(self._make_tensor(output, dtype) for output, dtype in zip(outputs, dtypes, strict=True))
        self.tensors.update(zip(outputs, results, strict=True))
        if key is not None:
            self.scope.seen[key] = results
        return results

    def copy(self, tensor: Tensor) -> Tensor:
        """Emit an Identity of a tensor or sequence, whose result has a name of its own."""
        (same,) = self.append("", "Identity", [tensor.value], {}, [tensor.known_dtype])
        same.stamp(tensor.type)
        same.value.type = tensor.value.type  # sequences have no dtype that `write_type` could write
        return same

    def initializer(self, tensor: torch.Tensor, name: str | None) -> ir.Value:
        """Return the initializer with these contents; equal ones are one."""
        wrapped = TorchTensor(tensor)
        contents: Any = wrapped.tobytes() if tensor.nbytes <= _SMALL else _memory(tensor)
        key = (tensor.dtype, tuple(tensor.shape), contents)
        if (value := self.initializers.get(key)) is None:
            wrapped.name = self._name_of_constant(name)
            value = self.initializers[key] = ir.val(wrapped.name, const_value=wrapped)
        return value

    def deferred(self, compute: Callable[[], torch.Tensor], like: torch.Tensor, name: str | None) -> Tensor:
        """Add an initializer of `like`'s type that is computed whenever it is written."""
        named, dtype, shape = self._name_of_constant(name), onnx_dtype(like.dtype), ir.Shape(like.shape)
        contents = ir.LazyTensor(lambda: TorchTensor(compute(), named), dtype=dtype, shape=shape, name=named)
        value = self.initializers["deferred", named] = ir.val(named, const_value=contents)
        self.tensors[value] = self._make_tensor(value, like.dtype, tuple(like.shape))
        return self.tensors[value]

    def _name_of_constant(self, name: str | None) -> str:
        return self.names.unique(_ODD.sub("_", name) if name else "constant")

    def add_input(self, name: str, type_: Type, dtype: torch.dtype | None = None) -> Tensor:
        """Add an input to the current scope's graph, with this name where it is free.

        `dtype` is for a Python number whose tensor has another dtype than torch's default for it.
        """
        tensor = self.placeholder(self.names.unique(name), type_, dtype)
        self.scope.inputs.append(tensor.value)
        write_type(tensor)
        return tensor

    def placeholder(self, name: str, type_: Type, dtype: torch.dtype | None = None) -> Tensor:
        """Return a tensor of a known type that no node makes."""
        if dtype is None and isinstance(type_, ScalarType):
            dtype = dtype_of_number(type_.kind())
        value = ir.Value(name=name)
        self.tensors[value] = tensor = self._make_tensor(value, dtype)
        tensor.stamp(type_)
        return tensor

    def tensor_of(self, value: ir.Value) -> Tensor:
        """Return the tensor of an onnx-ir value of this model, an initializer's included."""
        if (tensor := self.tensors.get(value)) is None:
            contents = value.const_value
            assert isinstance(contents, TorchTensor), value
            tensor = self._make_tensor(value, contents.torch.dtype, tuple(contents.torch.shape), contents.torch, value.name)
        return tensor

    def rename(self, tensor: Tensor, base: str) -> None:
        """Give a node's output the captured program's name."""
        if (value := tensor.known_value) is not None and value.producer() is not None:
            value.name = self.names.unique(base)


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return (storage.data_ptr() or id(storage), tensor.storage_offset(), tensor.stride(), str(tensor.device))


def write_type(tensor: Tensor) -> None:
    """Write a tensor's known dtype and shape to its onnx-ir value, see `merge_types`."""
    value, dtype, shape = tensor.value, tensor.known_dtype, tensor.known_shape
    if value.type is None and dtype is not None:
        value.type = ir.TensorType(onnx_dtype(dtype))
    if value.shape is None and shape is not None:
        value.shape = ir_shape(shape)
