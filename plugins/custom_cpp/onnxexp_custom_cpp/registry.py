"""The operators that a program registers by calls.

They belong to the process, as torch's own registrations of operators do: every later export has them. A plugin has an
`OperatorTable` of its own instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnxexp_custom_cpp.operators import Operator, OperatorTable

REGISTERED = OperatorTable()


def register_op(
    torch: str,
    *,
    onnx: str,
    version: int = 1,
    attrs: Mapping[str, str] | None = None,
    symbolic: Callable[..., Any] | None = None,
    body: Any = None,
    libraries: Sequence[str] = (),
    modules: Sequence[str] = (),
    override: bool = False,
) -> None:
    """Register a custom operator for every later export of the process.

    Args:
        torch, onnx, version, attrs, symbolic, body, libraries, modules: See `Operator`.
        override: True replaces an earlier registration of the operator at this version.

    Raises:
        OptionError: The operator is registered already, or its schema and the attributes disagree.
    """
    operator = Operator(torch, onnx, version, attrs, symbolic, body, tuple(libraries), tuple(modules))
    REGISTERED.add(operator, override=override)


def unregister_op(torch: str) -> None:
    """Remove every version of an operator. Raises OptionError without one."""
    REGISTERED.remove(torch)
