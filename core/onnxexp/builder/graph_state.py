"""The model under construction: nodes in nested scopes, initializers, names, provenance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onnxexp.builder.dtypes import to_onnx
from onnxexp.builder.tensor import Tensor
from onnxexp.builder.torch_tensor import TorchTensor
from onnxexp.graph import Node, ScalarType, TensorType, Type

if TYPE_CHECKING:
    from onnxexp.builder.builder import Builder

__all__ = ["Names", "Scope", "State"]

UNKNOWN_DIM = "unknown_dim"
"""The prefix of unknown sizes' names while the model is built; the model itself leaves such sizes unnamed."""
_SMALL = 4096
"""Bytes up to which constants are compared by contents; larger ones by storage, offset and strides."""
_ODD = re.compile(r"[^0-9A-Za-z_.:/\-]+")
_PYTHON_DTYPES: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float32}


class Names:
    """Unique names."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def unique(self, base: str) -> str:
        """`base`, or `base_1`, `base_2`, … where it is taken."""
        taken = self._taken
        if base not in taken:
            taken[base] = 0
            return base
        name, count = base, taken[base]
        while name in taken:
            count += 1
            name = f"{base}_{count}"
        taken[base], taken[name] = count, 0
        return name

    def reserve(self, names: Iterable[str]) -> None:
        """Reserve names, so that `unique` never returns them."""
        for name in names:
            self._taken.setdefault(name, 0)


class Scope:
    """The inputs and nodes of one graph, and its nodes by key, to share equal ones."""

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.inputs: list[ir.Value] = []
        self.nodes: list[ir.Node] = []
        self.seen: dict[Any, tuple[Tensor, ...]] = {}

    def find(self, key: Any) -> tuple[Tensor, ...] | None:
        scope: Scope | None = self
        while scope is not None:
            if key in scope.seen:
                return scope.seen[key]
            scope = scope.parent
        return None


class State:
    """The parts of the model under construction."""

    def __init__(self, opset: int) -> None:
        self.opset_imports: dict[str, int] = {"": opset}
        self.functions: dict[ir.OperatorIdentifier, ir.Function] = {}
        self.initializers: dict[Any, ir.Value] = {}
        self.names = Names()
        self.node_names = Names()
        self.scope = Scope(None)
        self.tensors: dict[ir.Value, Tensor] = {}
        self.inferred: set[ir.Node] = set()
        self._prefix, self._base, self._metadata = "", "", dict[str, str]()

    def provenance(self, node: Node | None) -> None:
        """Name the nodes emitted from now on after this captured node."""
        if node is None:
            self._prefix, self._base, self._metadata = "", "", {}
            return
        where = node.where
        self._prefix = f"{where.scope}/" if where.scope else ""
        self._base = node.outputs[0].name if node.outputs else node.op
        self._metadata = {"onnxexp.op": node.op}
        if where.scope:
            self._metadata["onnxexp.scope"] = where.scope
        if where.file:
            file = where.file.replace("\\", "/").rsplit("/", 1)[-1]
            self._metadata["onnxexp.source"] = f"{file}:{where.line}"

    def import_domain(self, domain: str, custom_opsets: dict[str, int]) -> int:
        """The version at which a domain is imported: the user's choice, else 1."""
        return self.opset_imports.setdefault(domain, custom_opsets.get(domain, 1))

    def append(
        self,
        builder: Builder,
        domain: str,
        name: str,
        inputs: Sequence[ir.Value | None],
        attributes: dict[str, ir.Attr],
        dtypes: Sequence[torch.dtype | None],
        key: Any,
    ) -> tuple[Tensor, ...]:
        """Append a node to the current scope, or return the results of an equal one (`key` None: never shared)."""
        shared = self.scope.find(key) if key is not None else None
        if shared is not None:
            return shared
        base = f"{self._base}_{name}" if self._base else name
        outputs = [ir.Value(name=self.names.unique(base)) for _ in dtypes]
        node = ir.Node(
            domain,
            name,
            inputs,
            attributes,
            outputs=outputs,
            name=self.node_names.unique(self._prefix + name),
            metadata_props=dict(self._metadata),
        )
        self.scope.nodes.append(node)
        results = tuple(Tensor(builder, output, dtype) for output, dtype in zip(outputs, dtypes, strict=True))
        self.tensors.update(zip(outputs, results, strict=True))
        if key is not None:
            self.scope.seen[key] = results
        return results

    def initializer(self, tensor: torch.Tensor, name: str | None) -> ir.Value:
        """The initializer with these contents; equal ones are one."""
        wrapped = TorchTensor(tensor)
        contents: Any = wrapped.tobytes() if tensor.nbytes <= _SMALL else _memory(tensor)
        key = (tensor.dtype, tuple(tensor.shape), contents)
        value = self.initializers.get(key)
        if value is None:
            value = ir.Value(
                name=self.names.unique(_ODD.sub("_", name) if name else "constant"),
                shape=wrapped.shape,
                type=ir.TensorType(wrapped.dtype),
                const_value=wrapped,
            )
            wrapped.name = value.name
            self.initializers[key] = value
        return value

    def deferred(self, builder: Builder, compute: Callable[[], torch.Tensor], like: torch.Tensor, name: str | None) -> Tensor:
        """An initializer, of the dtype and shape of `like`, whose contents are computed whenever they are written."""
        named = self.names.unique(_ODD.sub("_", name) if name else "constant")
        dtype, shape = to_onnx(like.dtype), ir.Shape(like.shape)
        contents = ir.LazyTensor(lambda: TorchTensor(compute(), named), dtype=dtype, shape=shape, name=named)
        value = ir.Value(name=named, shape=shape, type=ir.TensorType(dtype), const_value=contents)
        self.initializers["deferred", named] = value
        self.tensors[value] = Tensor(builder, value, like.dtype, tuple(like.shape))
        return self.tensors[value]

    def add_input(self, builder: Builder, name: str, type_: Type) -> Tensor:
        """A new input of the current scope's graph; its name is taken as it is where it is free."""
        value = ir.Value(name=self.names.unique(name))
        self.scope.inputs.append(value)
        tensor = Tensor(builder, value)
        if isinstance(type_, ScalarType):
            tensor._dtype = _PYTHON_DTYPES[type_.kind]
        tensor.stamp(type_)
        self.tensors[value] = tensor
        write_type(tensor)
        return tensor

    def rename(self, tensor: Tensor, base: str) -> None:
        """Give a node's output the captured program's name."""
        value = tensor._value
        if value is not None and value.producer() is not None:
            value.name = self.names.unique(base)


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return (storage.data_ptr() or id(storage), tensor.storage_offset(), tensor.stride(), str(tensor.device))


def write_type(tensor: Tensor) -> None:
    """Write a tensor's known dtype and shape to its onnx-ir value."""
    value = tensor.value
    if value.type is None and tensor._dtype is not None:
        value.type = ir.TensorType(to_onnx(tensor._dtype))
    if tensor._shape is not None and value.shape is None:
        unknown = [isinstance(size, str) and size.startswith(UNKNOWN_DIM) for size in tensor._shape]
        value.shape = ir.Shape(None if hidden else size for hidden, size in zip(unknown, tensor._shape, strict=True))


def type_of(tensor: torch.Tensor) -> TensorType:
    """The neutral type of a torch tensor."""
    return TensorType(tensor.dtype, tuple(tensor.shape))
