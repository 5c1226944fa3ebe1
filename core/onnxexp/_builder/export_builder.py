"""The builder of one export, as the lowering drives it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onnxexp._builder.builder import Builder
from onnxexp._builder.graph_state import Provenance
from onnxexp._neutral_graph import Node
from onnxexp._request.export_context import ExportContext


class ExportBuilder(Builder):
    """A builder with the options of an export, for the nodes of its captured graph."""

    def __init__(self, context: ExportContext) -> None:
        options = context.options
        super().__init__(
            options.opset, custom_opsets=options.custom_opsets, fold=options.fold, target=options.target, context=context
        )

    @contextlib.contextmanager
    def at(self, node: Node, *, nested: bool = False) -> Iterator[None]:
        """Lower a captured node inside the `with`.

        The ONNX nodes made inside carry its name and source line. A `nested` node is part of the node that is being lowered: the
        ONNX nodes keep the name and source line of the outer node.
        """
        before = self._node, self._state.provenance
        self._node = node
        if not nested:
            self._state.provenance = Provenance.of(node)
        try:
            yield
        finally:
            self._node, self._state.provenance = before

    def connect(self, resolve: Callable[[Any], Any], lower: Callable[[str, Sequence[Any], int | None], Sequence[Any]]) -> None:
        """Connect the builder to the lowering of a captured graph.

        Args:
            resolve: Maps a captured argument to Tensors and Python constants.
            lower: Lowers a call of a torch operator, see `torch_op`.
        """
        self._resolve, self._lower = resolve, lower

    def close(self) -> None:
        """Release everything once the model is finished.

        Tensors and builder refer to each other. Without this call, weights stay in memory until Python's garbage collector runs.
        """
        self.__dict__.clear()
