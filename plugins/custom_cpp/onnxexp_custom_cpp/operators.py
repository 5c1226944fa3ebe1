"""Custom operators: the ONNX form of a torch operator, by version of its domain."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from onnxexp import Builder, OptionError, SymbolicTable
from onnxexp.torch_ops import schemas
from onnxexp_custom_cpp.argument_mapping import ArgumentMapping
from onnxexp_custom_cpp.bodies.bodies_in_progress import bodies_in_progress

EMITTED = "custom-cpp.emitted"
"""Key in `ExportContext.plugin_data`: the operators of the model, by the names in ONNX."""
METADATA = "onnxexp.torch_operators"
"""The key in a model's metadata: the torch operators of its custom operators, as JSON."""
BODIES = frozenset({"decompose"})
"""The named kinds of `Operator.body`."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Operator:
    """A torch operator and the ONNX operator that it becomes.

    Attributes:
        torch: The torch operator, ``"custom_ops::foo_forward"``; with an overload, ``"custom_ops::foo.Scalar"``, only that one.
        onnx: The ONNX operator, ``"custom_domain::Foo"``.
        version: The version of the domain that has this form of the operator.
        attrs: The arguments that become attributes, with their kinds as in torch.onnx: f (float), i (int, bool, or a dtype as an
            ONNX element type), s (str), and fs, is, ss for lists. Other numbers are inputs. None: every argument that is no
            tensor is an attribute of its own name.
        symbolic: Called as ``symbolic(op, *args)`` in place of the one-to-one form; the arguments are those of the schema.
        body: The operator in terms of ONNX's own, for runtimes without a kernel: "decompose" (torch's decomposition of the
            operator), a Python function with the operator's arguments, or an onnxscript function of the domain.
        libraries: Files for `torch.ops.load_library`, for a process that runs the model and does not import the operator.
        modules: Python modules to import there instead.
    """

    torch: str
    onnx: str
    version: int = 1
    attrs: Mapping[str, str] | None = None
    symbolic: Callable[..., Any] | None = None
    body: Any = None
    libraries: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("torch", self.torch), ("onnx", self.onnx)):
            namespace, separator, base = value.partition("::")
            if not (namespace and separator and base):
                raise OptionError(f"{name} is {value!r}; it is written NAMESPACE::NAME, such as 'custom_ops::foo'")
        if self.onnx.startswith(("ai.onnx::", "::")):
            raise OptionError(f"onnx is {self.onnx!r}: a custom operator has a domain of its own")
        if type(self.version) is not int or self.version < 1:
            raise OptionError(f"the version of {self.onnx} is {self.version!r}; it is a whole number from 1 on")
        if isinstance(self.body, str) and self.body not in BODIES:
            raise OptionError(
                f"the body of {self.onnx} is {self.body!r}; it is 'decompose', a function, or an onnxscript function"
            )
        if self.symbolic is not None and self.attrs is not None:
            raise OptionError(f"{self.torch}: give attrs or a symbolic, not both")

    @property
    def domain(self) -> str:
        return self.onnx.partition("::")[0]

    @property
    def name(self) -> str:
        return self.onnx.partition("::")[2]

    def form(self, overload: str) -> ArgumentMapping:
        """Map the arguments of one overload to ONNX inputs and attributes.

        Raises OptionError where its schema and `attrs` disagree.
        """
        return ArgumentMapping.of(_schema(overload), self.attrs)


class OperatorTable(SymbolicTable):
    """A table of custom operators, for the attribute `symbolics` of a plugin.

    Raises OptionError for an operator that is there already at the same version, or whose schema and attributes disagree.
    """

    def __init__(self, *operators: Operator, override: bool = False) -> None:
        super().__init__("custom_ops", override=override)
        self._versions: dict[str, dict[int, Operator]] = {}
        for operator in operators:
            self.add(operator)

    def add(self, operator: Operator, *, override: bool = False) -> None:
        """Add an operator; `override` replaces the one of the same version."""
        if operator.symbolic is None:
            for schema in schemas(operator.torch):  # none yet, where the library of the operator is loaded later
                ArgumentMapping.of(schema, operator.attrs)
        versions = self._versions.get(operator.torch)
        if versions is None:
            versions = self._versions[operator.torch] = {}
            self(operator.torch)(_symbolic(versions))
        earlier = versions.get(operator.version)
        if earlier is not None and not override:
            raise OptionError(
                f"{operator.torch} is registered as {earlier.onnx} version {earlier.version} already; override=True replaces it"
            )
        domains = {each.domain for each in versions.values()} - {operator.domain}
        if domains:
            raise OptionError(
                f"{operator.torch} is registered for the domain {min(domains)}, and now for {operator.domain}: choose one"
            )
        versions[operator.version] = operator

    def remove(self, torch_name: str) -> None:
        """Remove every version of an operator. Raises OptionError where there is none."""
        if not self._versions.get(torch_name):
            raise OptionError(f"{torch_name} is not registered")
        self._versions[torch_name].clear()


def _symbolic(versions: Mapping[int, Operator]) -> Callable[..., Any]:
    """Return the symbolic of one torch operator, in all its versions."""

    def custom_operator(op: Builder, *args: Any) -> Any:
        return _lower(versions, op, args)

    return custom_operator


def _lower(versions: Mapping[int, Operator], op: Builder, args: Sequence[Any]) -> Any:
    """Lower a call as the operator of the version that the model imports."""
    if not versions:
        op.decline("its registration was removed")
    operator = _chosen(versions, op)
    if operator.onnx in bodies_in_progress():
        op.decline("its body is being exported")
    domain = op.domain(operator.domain, op.custom_opsets.get(operator.domain, operator.version))
    emitted = op.context.plugin_data.get(EMITTED)
    if emitted is None:
        raise op.error(f"{operator.torch} needs the plugin custom-cpp, which is off: give its name in `plugins`, or enable it")
    if operator.symbolic is not None:
        return operator.symbolic(op, *args)
    mapping = operator.form(op.node.op)
    inputs, attributes = mapping.split(op, args)
    emitted[operator.onnx] = operator, mapping
    if any(not str(each.type).startswith("Tensor") for each in mapping.schema.returns):
        raise op.error(f"{mapping.schema}: a custom operator returns tensors; give a symbolic for other results")
    return domain.call(operator.name, *inputs, outputs=len(op.node.outputs), **attributes)


def _chosen(versions: Mapping[int, Operator], op: Builder) -> Operator:
    """Return the operator of the highest version that is not above the imported one."""
    newest = versions[max(versions)]
    imported = op.custom_opsets.get(newest.domain, newest.version)
    fitting = [version for version in versions if version <= imported]
    if not fitting:
        raise op.error(
            f"{newest.torch} is registered for {newest.domain} version {' and '.join(map(str, sorted(versions)))}, and the model "
            f"imports version {imported}: give custom_opsets={{{newest.domain!r}: {min(versions)}}}"
        )
    return versions[max(fitting)]


def _schema(name: str) -> torch.FunctionSchema:
    return next(each for each in schemas(name) if name.endswith(f".{each.overload_name}") or not each.overload_name)
