"""The plugin's hooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import onnx_ir as ir

from onnxexp import ExportContext, hookimpl
from onnxexp_custom_cpp.bodies.add_bodies import AddBodies
from onnxexp_custom_cpp.capture.automatic_fakes import automatic_fakes
from onnxexp_custom_cpp.operators import EMITTED, METADATA
from onnxexp_custom_cpp.registry import REGISTERED


class CustomCpp:
    """The plugin: exports and runs custom operators."""

    symbolics = REGISTERED

    @hookimpl
    def capture_context(self, context: ExportContext) -> AbstractContextManager[None]:
        context.plugin_data[EMITTED] = {}
        return automatic_fakes()

    @hookimpl
    def prepare_session(self, model: ir.Model, options: Any) -> ir.Model | None:
        needs_torch = METADATA in model.metadata_props or "onnxexp.needs_torch" in model.metadata_props
        if not needs_torch:
            return None
        from onnxexp_custom_cpp.runtime import prepare  # most exports run no custom operator

        return prepare(model, options)

    @hookimpl
    def post_pass(self, context: ExportContext) -> list[Any]:
        return [write_mapping(context), AddBodies(context)]


def write_mapping(context: ExportContext) -> Callable[[ir.Model], bool]:
    """Return a pass that writes the torch operators of the model to its metadata."""

    def write_torch_operators(model: ir.Model) -> bool:
        emitted = context.plugin_data.get(EMITTED) or {}
        if emitted:
            model.metadata_props[METADATA] = json.dumps(
                {
                    name: {"torch": mapping.name, "attributes": dict(mapping.attributes)}
                    | ({"libraries": operator.libraries} if operator.libraries else {})
                    | ({"modules": operator.modules} if operator.modules else {})
                    for name, (operator, mapping) in sorted(emitted.items())
                }
            )
        return bool(emitted)

    return write_torch_operators
