"""Name the symbolic sizes of a captured program.

A symbol takes the user's name for its first axis (a Dim's name, a string, or a name in `dynamic_axes`). An input axis without a
name is ``{input}_dim_{axis}``. An unbacked symbol is ``dim_0``, ``dim_1``, … in order of appearance. Any other size is an
expression of these: ``2*batch + 1``, ``(seq + 1)//2``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import Dim, ExportedProgram
from torch.utils._sympy.numbers import int_oo

from onnxexp._capture.size_names import SizeNames
from onnxexp._errors import CaptureError
from onnxexp._request.axis_spec import Axis
from onnxexp._request.dynamic_shapes import DynamicSpec, user_inputs
from onnxexp._request.pytree_leaves import Leaf
from onnxexp._request.unique_names import UniqueNames


def symbol_names(program: ExportedProgram, spec: DynamicSpec, *, each: bool = False) -> SizeNames:
    """Return the name of each symbol and named composite size of the inputs.

    Two axes of the same name share it if their sizes in the example agree. If not, the second name gets a number: ONNX Runtime
    plans memory on the assumption that one name is one size.

    The table belongs to one export. With `each`, sizes that torch found equal keep own names,
    without a warning.
    """
    names = SizeNames()
    found = list(input_sizes(program, spec))
    sizes: dict[str, int] = {}
    for size in found:
        if size.request is not None and size.request.name is not None:
            own = size.request.name
            same = size.given in (0, 1) or sizes.setdefault(own, size.given) == size.given  # 0 and 1 are enlarged to the group's
            unused = own if same else UniqueNames(names.values()).unique(own) if each else names.unused(own)
            _name_symbol(names, size, unused)
    for size in found:
        if isinstance(size.expr, sympy.Symbol) and size.expr not in names:
            names[size.expr] = UniqueNames(names.values()).unique(size.name)
    for size in found:
        name = size.request.name if size.request is not None and size.request.derived is None else None
        if name and name not in names.values():
            names.setdefault(size.expr, name)
    if each:
        names |= {symbol: size.name for symbol, size in input_symbols(program, spec).items()}
    return names


def check_dynamic(program: ExportedProgram, spec: DynamicSpec) -> None:
    """Raise CaptureError if a requested dynamic axis or number is constant."""
    for size in input_sizes(program, spec):
        if size.request is not None and size.request.required and size.expr.is_number:
            label = size_label(size.leaf, size.axis, size.request)
            raise CaptureError(f"{label} was asked to be dynamic, but the model fixes it to {size.expr}.")


def size_label(leaf: Leaf, axis: int | None, request: Axis | None) -> str:
    """Return the text of a size in an error, such as ``axis 0 of input x (batch)``."""
    name = f" ({request.name})" if request is not None and request.name else ""
    return f"{f'axis {axis} of ' if axis is not None else ''}input {leaf.name}{name}"


@dataclasses.dataclass(frozen=True)
class InputSize:
    """A size of an input tensor, or an input that is a number (then `axis` is None).

    `index` is the leaf's; `captured` is torch's number, symbolic or constant; `request` is None in a given program.
    """

    leaf: Leaf
    index: int
    axis: int | None
    captured: Any
    request: Axis | None

    @property
    def given(self) -> Any:
        """The size in the user's example."""
        return self.leaf.value if self.axis is None else self.leaf.value.shape[self.axis]

    @property
    def expr(self) -> sympy.Expr:
        """The size in the program."""
        return self.captured.node.expr if isinstance(self.captured, torch.SymInt) else sympy.Integer(self.captured)

    @property
    def symbol(self) -> sympy.Symbol | None:
        """The own symbol, which the program lacks if torch found two sizes equal."""
        node = self.captured.node if isinstance(self.captured, torch.SymInt) else None
        return node._expr if node is not None and node._expr in node.shape_env.backed_var_to_val else None

    @property
    def name(self) -> str:
        """The user's name of the size, or one made of the input's."""
        own = self.request.name if self.request is not None and "root" not in vars(self.request.dim) else None
        return own or (self.leaf.name if self.axis is None else f"{self.leaf.name}_dim_{self.axis}")

    @property
    def range(self) -> tuple[Any, Any]:
        """The least and the largest size that the user requested."""
        dim = self.request.dim if self.request is not None else Dim.AUTO
        return -int_oo if dim.min is None else dim.min, int_oo if dim.max is None else dim.max


def input_sizes(program: ExportedProgram, spec: DynamicSpec) -> Iterator[InputSize]:
    """Yield the sizes of the inputs that are symbolic or were to be."""
    for index, (leaf, value) in enumerate(zip(spec.leaves, user_inputs(program), strict=True)):
        if isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                request = spec.axes[index].get(axis)
                if request is not None or isinstance(size, torch.SymInt):
                    yield InputSize(leaf, index, axis, size, request)
        elif index in spec.scalars and value is not None:
            yield InputSize(leaf, index, None, value, spec.scalars[index])


def input_symbols(program: ExportedProgram, spec: DynamicSpec) -> dict[sympy.Symbol, InputSize]:
    """Return the symbolic input sizes by their own symbols."""
    return {size.symbol: size for size in input_sizes(program, spec) if size.symbol is not None}


def _name_symbol(names: dict[sympy.Expr, str], size: InputSize, name: str) -> None:
    """Name the symbol of a size, or the root of its derived Dim."""
    assert size.request is not None
    is_derived = "root" in vars(size.request.dim)
    root, function = size.request.derived or (name, int)
    for symbol in size.expr.free_symbols:
        if (function(symbol) if is_derived else symbol) == size.expr:
            names.setdefault(symbol, root)
