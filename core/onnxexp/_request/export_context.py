"""The context that the hooks and symbolics of one export share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from onnxexp._request.options import Options

Form: TypeAlias = "Callable[[Any], Any]"


@dataclasses.dataclass(frozen=True)
class ExportContext:
    """The context of one export, for hooks and symbolics.

    Every export has a context of its own, so that plugins need no module-level or thread-local state.

    Attributes:
        options: The options of the export.
        plugin_data: Data that a plugin passes from one hook or symbolic to another, from `capture_context` to the last post
            pass. A key begins with the plugin's name (``"my-plugin.scopes"``, or a tuple that begins with it), so that two
            plugins do not collide. It is emptied at the end of the export: `serialize` finds nothing in it.
        restrictions: The frontend's conditions on sizes, as in `CapturedProgram`; a pre pass may add its own.
        dense_forms: Functions that plugins add in `capture_context`, for tensors that ONNX lacks: quantized, sparse, nested.
            Each takes a tensor and the name of the input, "" for a result of the original, and returns a form or None. A form
            makes such a tensor dense. It gets the example, and that argument of each call of the program.
        input_forms: The forms of the inputs, by the index of the leaf.
        redirections: The replacements of torch's functions, see `redirect`. A frontend that runs the model's forward itself
            passes them to `onnxexp.frontends.redirected`.
    """

    options: Options
    plugin_data: dict[Any, Any] = dataclasses.field(default_factory=dict)
    restrictions: dict[str, Callable[[Sequence[Any]], bool]] = dataclasses.field(default_factory=dict)
    dense_forms: list[Callable[[torch.Tensor, str], Form | None]] = dataclasses.field(default_factory=list)
    input_forms: dict[int, Form] = dataclasses.field(default_factory=dict)
    redirections: list[tuple[Any, str, Callable[..., Any]]] = dataclasses.field(default_factory=list)

    def redirect(self, owner: Any, name: str, replacement: Callable[..., Any]) -> None:
        """Redirect a function of torch while a capture runs the model's forward.

        Only calls of this thread are redirected. Call it in `capture_context`, or in `capture` before another frontend's.

        Args:
            owner: The owner of the function, such as `torch` or `torch.Tensor`. Other places of the same function count, too.
            name: The name of the function. It has no effect where this version of torch lacks the function.
            replacement: A function that gets torch's function, then the arguments of the call. Of two replacements of one
                function, the later gets the earlier in place of torch's function.
        """
        self.redirections.append((owner, name, replacement))

    def form(self, tensor: torch.Tensor, name: str) -> Form | None:
        """Return the form that the first plugin has for a tensor."""
        forms = (make(tensor, name) for make in self.dense_forms)
        return next((form for form in forms if form is not None), None)

    def dense(self, result: torch.Tensor) -> torch.Tensor:
        """Convert a result of the original to the form in which the program returns it."""
        form = self.form(result, "")
        return result if form is None else form(result)
