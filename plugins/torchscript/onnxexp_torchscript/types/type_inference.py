"""Type inference for TorchScript graphs, with symbols for dynamic sizes.

Shape functions come first, then torch's kernels on fake tensors. A value that depends on no dynamic size keeps the type that the
trace recorded.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.numbers import int_oo

from onnxexp import CaptureError
from onnxexp.frontends import DynamicSpec, ShapeEnvSnapshot, SizeNames, fake_kernels
from onnxexp.graph import Dim, ScalarType, SourceLocation, SymbolicSize, TensorType, Type, Value
from onnxexp.torch_ops import MutationInfo, overload
from onnxexp_torchscript.jit.jit_schemas import changes_shape
from onnxexp_torchscript.types.abstract_tensor import (
    NUMBERS,
    UNKNOWN,
    AbstractTensor,
    expr_of,
    from_fake,
    harmless,
    has_unknown,
    is_long,
    is_unbacked,
    key_of,
    kind_of,
    repeatable,
    same,
    to_fake,
)
from onnxexp_torchscript.types.call_probes import SizeProbe
from onnxexp_torchscript.types.data_dependent_sizes import UnbackedSizes
from onnxexp_torchscript.types.packed_batches import PackedBatches
from onnxexp_torchscript.types.shape_functions import infer_result
from onnxexp_torchscript.types.symbol_sources import constant_source

_FIRST = 1000
"""The first number of our symbols; torch's own for input sizes are smaller."""


class TypeInference:
    """Types of the values of one graph.

    Attributes:
        mode: The fake mode, created when the first kernel runs.
        names: The readable names of the sizes.
        unbacked: The symbols for sizes that depend on data.
        inputs: The symbolic sizes by leaf and axis, and the symbolic numbers.
        least: The least size that the user asked for, by the size of an axis.
        packed: The batches of packed sequences.
    """

    def __init__(self, *, traced: bool = False) -> None:
        self._traced = traced  # a second trace, at other sizes, shows sizes that are not equal there
        self.unbacked = UnbackedSizes()
        self.names = SizeNames()
        self.expressions: dict[SymbolicSize, Any] = {}
        self._symbols: dict[tuple[str, int], Any] = {}
        self._fakes: dict[Value, Any] = {}
        self._made: dict[Value, Any] = {}
        self._dynamic: set[Value] = set()
        self._fixed: list[tuple[sympy.Symbol, SourceLocation]] = []
        self.inputs: dict[tuple[int, int | None], Any] = {}
        self.least: dict[sympy.Expr, int] = {}
        self.packed = PackedBatches()
        self._known: dict[Any, Any] = {}
        self._symbolic_of: dict[sympy.Expr, SymbolicSize] = {}
        self._short_of: dict[sympy.Expr, Any] = {}
        self._long_of: dict[sympy.Symbol, sympy.Expr] = {}
        self._probe = SizeProbe(self.call, self.unbacked, self._long_of)

    @property
    def env(self) -> ShapeEnv:
        return self.unbacked.env

    @functools.cached_property
    def mode(self) -> FakeTensorMode:
        return FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)

    # Inputs

    def input(self, index: int, leaf: Any, spec: DynamicSpec) -> Value:
        """Create the value of an input leaf, with symbols for its dynamic axes."""
        name = spec.leaves[index].name
        if not isinstance(leaf, torch.Tensor):
            return self._scalar(index, leaf, name, spec)
        if not spec.axes[index]:
            return Value(name, TensorType(leaf.dtype, tuple(leaf.shape)))
        sizes: list[Any] = list(leaf.shape)
        for axis, wanted in spec.axes[index].items():
            if wanted.required and sizes[axis] > 0:
                sizes[axis] = self.inputs[index, axis] = self._symbol(wanted, sizes[axis], f"{name}_dim_{axis}")
                self.least[expr_of(sizes[axis])] = wanted.dim.min or 0
        value = Value(name, self._provisional(leaf.dtype, sizes))
        if any(isinstance(size, torch.SymInt) for size in sizes):
            self.record(value, AbstractTensor(leaf.dtype, sizes))
        return value

    def _scalar(self, index: int, leaf: Any, name: str, spec: DynamicSpec) -> Value:
        kind = type(leaf)
        value = Value(name, ScalarType(kind) if kind in (bool, int, float) else TensorType(None, None))
        if index in spec.scalars:
            symbol = self.unbacked.any_number(kind)
            self.names.setdefault(symbol.node.expr, self.names.unused(spec.scalars[index].name or name))
            self.inputs[index, None] = symbol
            self.record(value, symbol)
        return value

    def _symbol(self, wanted: Any, size: int, default: str) -> Any:
        derived = wanted.derived
        if derived is None:
            name = wanted.name or default
            return self._named(name, size)
        root, function = derived
        offset = function(0)
        step = function(1) - offset
        base = self._named(root, (size - offset) // step)
        return base * step + offset if (step, offset) != (1, 0) else base

    def _named(self, name: str, size: int) -> Any:
        key = name, size
        if key not in self._symbols:
            symbol = sympy.Symbol(f"s{_FIRST + len(self.names)}", integer=True)
            self.env.add_backed_var_to_val(symbol, size)
            self.env.constrain_symbol_range(symbol, -int_oo, int_oo)
            self.env.var_to_sources[symbol] = [constant_source(f"__onnxexp_{symbol}")]
            self._symbols[key] = self.env.create_symintnode(symbol, hint=size)
            self.names[symbol] = self.names.unused(name)
        return self._symbols[key]

    # Recorded fakes

    def record(self, value: Value, fake: Any) -> None:
        """Record the fake of a value; its type in the graph is that of the first one."""
        if value in self._fakes:
            self._made.setdefault(value, self._fakes[value])
        self._fakes[value] = fake
        self._dynamic.add(value)

    def dynamic(self, value: Value) -> bool:
        """Return whether a value depends on a dynamic size, so that its type is inferred."""
        return value in self._dynamic

    def of(self, value: Value) -> Any:
        """Return a value's abstract tensor or symbolic number, else UNKNOWN."""
        if value not in self._fakes:
            self._fakes[value] = self._from_type(value.type)
        return self._fakes[value]

    def shape_of(self, value: Value) -> Any:
        """Return a tensor's sizes after the calls so far, or None for an unknown rank."""
        fake = self.of(value)
        assert isinstance(value.type, TensorType)
        return fake.shape if isinstance(fake, AbstractTensor) else value.type.sizes

    def _from_type(self, type_: Type) -> Any:
        if isinstance(type_, ScalarType):
            return self.unbacked.any_number(type_.kind)
        if type_.dtype is None or type_.sizes is None or any(isinstance(size, SymbolicSize) for size in type_.sizes):
            return UNKNOWN
        return AbstractTensor(type_.dtype, type_.sizes)

    # Running

    def run(
        self, op: torch._ops.OpOverload, name: str, args: Sequence[Any], where: SourceLocation, *, local: bool = False
    ) -> Any:
        """Infer a call's result from the graph's arguments, or UNKNOWN if that fails.

        A `local` call is in a block and may never run, so that it fixes no size.
        """
        fakes = self._fakes_of(args)
        if has_unknown(fakes):
            return UNKNOWN
        same_op = MutationInfo.of(name).functional if changes_shape(name) else None
        if same_op is None:
            return self._inferred(op, name, fakes, args, where, local)
        functional = overload(same_op)  # on a symbolic shape, torch's squeeze_ of a size that is not 1 ends the process
        assert functional is not None
        result = self._inferred(functional, same_op, fakes, args, where, local)
        self.record(args[0], result)
        return result

    def _inferred(
        self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any], where: SourceLocation, local: bool
    ) -> Any:
        plain = self.unbacked.result(name, fakes, args)
        if plain is None:
            plain = infer_result(name, fakes)
        if plain is not None:
            return plain
        key = key_of(name, fakes)
        if key not in self._known:
            result = self.shortened(self._run(op, name, fakes, args, where, local))
            if not repeatable(result, fakes):
                return result
            self._known[key] = result
        return self._known[key]

    def of_any_rank(self, op: torch._ops.OpOverload, name: str, args: Sequence[Any]) -> Any:
        """Infer a result for tensors of unknown rank: a fake, a type, or UNKNOWN."""
        return self._probe.of_any_rank(op, name, self._fakes_of(args), args)

    def shortened(self, result: Any) -> Any:
        """Replace long size expressions by symbols, which torch compares faster."""
        if isinstance(result, (list, tuple)):
            return [self.shortened(part) for part in result]
        if not isinstance(result, AbstractTensor) or not any(map(is_long, result.shape)):
            return result
        return self.unbacked.tensor(result.dtype, [self._short(size) if is_long(size) else size for size in result.shape])

    def _short(self, size: Any) -> Any:
        expr = size.node.expr
        if expr not in self._short_of:
            source = constant_source(f"__onnxexp_short_{len(self._short_of)}")
            hint = int(size.node.hint)
            symbol = self.env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC, positive=None)
            self._short_of[expr] = self.env.create_symintnode(symbol, hint=hint, source=source)
            self._long_of[symbol] = expr
        return self._short_of[expr]

    def _run(
        self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any], where: SourceLocation, local: bool
    ) -> Any:
        before, guards = ShapeEnvSnapshot(self.env), len(self.env.guards)
        try:
            result = self.call(op, name, fakes, args)
        except Exception:  # noqa: BLE001 - torch's kernels have no common error for a size that is not known
            result = UNKNOWN
        fixed = [symbol for symbol, to in self.env.replacements.items() if symbol not in before.replacements and to.is_number]
        doubtful = any(not harmless(guard.expr) for guard in self.env.guards[guards:])
        if doubtful and result is not UNKNOWN:
            doubtful = not self._probe.agrees(op, name, fakes, args, result)
        if result is not UNKNOWN and not doubtful and not fixed:
            tied = self._traced and not self.unbacked.differ_in_the_trace(before)
            return result if tied else self.unbacked.untied(result, before)
        after = ShapeEnvSnapshot(self.env)
        before.restore()
        self._forget_fakes(fixed)
        tried = self._probe.result(op, name, fakes, args)
        if tried is UNKNOWN and fixed and not doubtful and not local:  # the call is allowed at this size only
            after.restore()
            self._fixed += [(symbol, where) for symbol in fixed]
            return result
        return tried

    def _forget_fakes(self, fixed: Sequence[Any]) -> None:
        """Drop torch's fakes and their results, where symbols were fixed for a while."""
        for fake in self._fakes.values() if fixed else ():
            if isinstance(fake, AbstractTensor):
                fake.forget_fake()
        self._known = {} if fixed else self._known

    def call(self, op: torch._ops.OpOverload, name: str, abstracts: list[Any], args: Sequence[Any]) -> Any:
        """Run torch's kernel on fake tensors; the kernel's errors pass through."""
        with fake_kernels(self.mode):
            return from_fake(self._called(op, name, to_fake(abstracts), args))

    def _called(self, op: torch._ops.OpOverload, name: str, fakes: list[Any], args: Sequence[Any]) -> Any:
        kernel = overload(name.replace("aten::", "onnxexp_shapes::")) or op  # an operator that computes shapes only
        if kernel is not op:
            fakes = self.packed.arguments(name, fakes, args, self.unbacked.any_size)
        if name in ("aten::view", "aten::_unsafe_view"):
            kernel = torch.ops.aten.reshape.default  # a fake may have other strides than the tensor that it stands for
        keywords = {a.name: fake for a, fake in zip(kernel._schema.arguments, fakes, strict=False) if a.kwarg_only}
        return kernel(*fakes[: len(fakes) - len(keywords)], **keywords)

    def tie(self, one: sympy.Symbol, other: sympy.Symbol) -> None:
        """Make two sizes of the inputs one."""
        first, second = (
            self.env.create_symintnode(symbol, hint=int(self.env.backed_var_to_val[symbol])) for symbol in (one, other)
        )
        assert first == second, "they are equal in the example"

    # Two ways that meet

    @contextlib.contextmanager
    def branch(self) -> Iterator[None]:
        """Forget at the end which axes of the inputs a branch needs equal."""
        before = dict(self.env.replacements)
        yield
        tied = [symbol for symbol in self.env.replacements.keys() - before if symbol in self.env.backed_var_to_val]
        if tied:
            ShapeEnvSnapshot(self.env).restore(free=tied)
            self._forget_fakes(tied)

    def joined(self, one: Any, other: Any) -> Any:
        """Create a fake that covers two tensors or two numbers, else UNKNOWN."""
        if one is UNKNOWN or other is UNKNOWN:
            return UNKNOWN
        if not isinstance(one, AbstractTensor) or not isinstance(other, AbstractTensor):
            return one if type(self.type_of(one)) is type(self.type_of(other)) else UNKNOWN
        if one.dtype != other.dtype or one.dim() != other.dim():
            return UNKNOWN
        if self.alike(one, other):
            return one
        return self.unbacked.tensor(one.dtype, [a if same(a, b) else None for a, b in zip(one.shape, other.shape, strict=True)])

    def alike(self, one: Any, other: Any) -> bool:
        """Return whether two fakes have one dtype and equal sizes, up to unbacked ones."""
        if not isinstance(one, AbstractTensor) or not isinstance(other, AbstractTensor):
            return one is other or (
                one is not None
                and other is not None
                and not isinstance(one, AbstractTensor)
                and not isinstance(other, AbstractTensor)
            )
        pairs = zip(one.shape, other.shape, strict=False)
        return (
            one.dtype == other.dtype
            and one.dim() == other.dim()
            and all(same(a, b) or (is_unbacked(a) and is_unbacked(b)) for a, b in pairs)
        )

    def renewed(self, fake: AbstractTensor) -> AbstractTensor:
        """Copy a tensor, with new symbols for its unbacked sizes."""
        return self.unbacked.tensor(fake.dtype, [None if is_unbacked(size) else size for size in fake.shape])

    def _fakes_of(self, args: Sequence[Any]) -> list[Any]:
        return [
            self.of(arg) if isinstance(arg, Value) else self._fakes_of(arg) if isinstance(arg, (list, tuple)) else arg
            for arg in args
        ]

    # Types

    def type_of(self, fake: Any) -> Type:
        """Return a fake's provisional type; `finish` replaces symbols by names."""
        if isinstance(fake, AbstractTensor):
            return self._provisional(fake.dtype, fake.shape)
        return ScalarType(kind_of(fake)) if isinstance(fake, (bool, int, float, *NUMBERS)) else TensorType(None, None)

    def _provisional(self, dtype: torch.dtype, sizes: Sequence[Any]) -> TensorType:
        return TensorType(dtype, tuple([size if isinstance(size, int) else self._symbolic(size.node.expr) for size in sizes]))

    def _symbolic(self, expr: sympy.Expr) -> SymbolicSize:
        if expr not in self._symbolic_of:
            self._symbolic_of[expr] = SymbolicSize(str(expr))
        return self._symbolic_of[expr]

    def expanded(self, expr: sympy.Expr) -> sympy.Expr:
        """Replace the symbols of long size expressions."""
        while self._long_of and not self._long_of.keys().isdisjoint(expr.free_symbols):
            expr = expr.xreplace(self._long_of)
        return expr

    def dim_of(self, size: Any) -> Dim:
        """Return a size of torch's as a number, or as an expression of names."""
        if isinstance(size, int):
            return size
        expr = size.node.expr if isinstance(size, torch.SymInt) else sympy.sympify(size, strict=True)
        readable = self.names.size(self.expanded(expr))
        if isinstance(readable, SymbolicSize):
            self.expressions.setdefault(readable, size)
        return readable

    def finish(self) -> None:
        """Write the readable types of all values, and drop the fakes."""
        for value, fake in {**self._fakes, **self._made}.items():
            if isinstance(fake, AbstractTensor) and value in self._dynamic:  # others have the type that was recorded
                value.type = TensorType(fake.dtype, tuple(map(self.dim_of, fake.shape)))
            elif isinstance(fake, torch.SymInt):
                value.type = ScalarType(int, SymbolicSize(str(self.dim_of(fake))))
        self._fakes.clear()
        self._made.clear()

    def check(self, spec: DynamicSpec) -> None:
        """Raise CaptureError for a dynamic axis that the model fixes to one size."""
        for (index, axis), size in self.inputs.items():
            expr = size.node.expr
            if axis is not None and expr.is_number:
                where = next((where for symbol, where in self._fixed if symbol in size.node._expr.free_symbols), None)
                at = f"\n  at {where}" if where is not None and str(where) else ""
                name = spec.axes[index][axis].name
                label = f"axis {axis} of input {spec.leaves[index].name}{f' ({name})' if name else ''}"
                fix = "write that line for any size, or leave the axis static"
                raise CaptureError(f"{label} was asked to be dynamic, but the model fixes it to {expr}; to fix this, {fix}{at}")

    def prefer_names(self, spec: DynamicSpec) -> None:
        """Give equal axes the first name that the user gave, and a computed size its own."""
        automatic = {f"{spec.leaves[index].name}_dim_{axis}" for index, axis in self.inputs if axis is not None}
        for (index, axis), size in self.inputs.items():
            wanted = spec.axes[index][axis] if axis is not None else None
            if wanted is None or wanted.name is None or wanted.derived is not None:
                continue
            if self.names.get(expr_of(size)) in automatic or not expr_of(size).is_Symbol:
                self.names[expr_of(size)] = wanted.name
