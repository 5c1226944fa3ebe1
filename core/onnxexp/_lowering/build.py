"""Lower one captured program.

An export lowers it once, and the search for the pass that changed a value lowers it again.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import onnx_ir as ir
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from onnxexp._builder.export_builder import ExportBuilder
from onnxexp._capture.captured_program import CapturedProgram
from onnxexp._decompose.node_decomposer import Decomposer
from onnxexp._lowering.assemble import assemble
from onnxexp._lowering.control_flow import LOWERINGS
from onnxexp._lowering.graph_io import GraphIO, bind_inputs, graph_outputs
from onnxexp._lowering.keep_torch_ops import OperatorExportTypes
from onnxexp._lowering.lowering import Lowering
from onnxexp._model.origins import LoweringRecord
from onnxexp._passes.manager import Passes
from onnxexp._plugins.loading import Plugins
from onnxexp._request.example_call import ExampleCall
from onnxexp._request.export_context import ExportContext


@dataclasses.dataclass(eq=False)
class Build:
    """The objects that a lowering needs.

    The objects are the captured program, the names of inputs and outputs, the example call, the plugins, the options and the
    passes.
    """

    captured: CapturedProgram
    io: GraphIO
    call: ExampleCall
    loaded: Plugins
    context: ExportContext
    export_type: OperatorExportTypes
    export_params: bool
    as_inputs: bool
    passes: Passes

    def __post_init__(self) -> None:
        self._params, self._plugin_data = dict(self.captured.graph.params), dict(self.context.plugin_data)

    def lower(self) -> tuple[Lowering, dict[str, torch.Tensor], list[Any]]:
        """Lower the captured graph.

        Returns the lowering, the weights that only the caller has, and the results. Raises the exceptions of `Lowering.run`.
        """
        graph = self.captured.graph
        decompose = self.captured.decompose or Decomposer(FakeTensorMode, {}, int)
        lowering = Lowering(ExportBuilder(self.context), self.loaded, decompose, self.export_type, LOWERINGS)
        weights = bind_inputs(lowering, self.captured, self.io, self.call.spec, self.export_params, self.as_inputs)
        try:
            return lowering, weights, lowering.run(graph)
        finally:
            graph.params.update(self._params)  # parameters that are inputs were taken out

    def record(self, lowering: Lowering) -> LoweringRecord:
        """Record the lowering for the comparison of both graphs."""
        return LoweringRecord(
            self.captured.graph, lowering.counterparts(), dict(lowering.lowered), lowering.symbolics, lowering.decompositions,
            self.passes.post_names, self.rebuilt,
        )  # fmt: skip

    def rebuilt(self, passes: int) -> tuple[ir.Model, LoweringRecord]:
        """Lower the captured graph again, and run the first so many post passes."""
        self.context.plugin_data.update(self._plugin_data)
        lowering, _, results = self.lower()
        with contextlib.closing(lowering.builder):
            model = assemble(lowering.builder, graph_outputs(self.io, results))
            record = self.record(lowering)
        self.passes.post(model, passes)
        return model, record
