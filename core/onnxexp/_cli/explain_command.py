"""The command `onnxexp explain`: trace a node of a file back to the user's code."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxexp._cli.text_or_json import Output, Progress
from onnxexp._errors import OptionError
from onnxexp._model.printable_text import one_line
from onnxexp._suggest import nearest

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnxexp._model.origins import NodeOrigin


EXAMPLES = (
    ("onnxexp explain mlp.onnx", "the module, source line, operator and symbolic of each node"),
    ("onnxexp explain mlp.onnx gelu", "those of one node"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="an ONNX file that onnxexp wrote")
    parser.add_argument("node", nargs="?", metavar="NODE", help="a node's name, or that of a result (default: all nodes)")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the origin of one node, or a table of all."""
    with Progress() as progress:
        progress.stage(f"loading {options.file}")
        from onnxexp._model.origins import NodeOrigin, all_nodes
        from onnxexp._serialize.model_reader import read_model

        model = read_model(options.file)
    origins = {node: NodeOrigin.of(node) for node in all_nodes(model)}
    if origins and not any(origins.values()):
        raise OptionError(
            f"{options.file} has no origins of its nodes: onnxexp did not write it, or with --strip; export the model again"
        )
    if options.node is None:
        rows = [(node, origin or NodeOrigin()) for node, origin in origins.items()]
        output.table(
            ["node", "torch", "module", "source", "lowered by"],
            [[node.name or node.op_type, each.op, each.scope, each.source, _maker(each)] for node, each in rows],
        )
        output.document([_document(node, each) for node, each in rows])
        return 0
    node = _find(origins, options.node, options.file)
    origin = origins[node] or NodeOrigin()
    _describe(node, origin, output)
    output.document(_document(node, origin))
    return 0


def _find(nodes: Any, name: str, file: Path) -> ir.Node:
    """Find a node by its name, by a result's name, or by the end of its name.

    Raises OptionError where no node or several nodes have the name.
    """
    wanted = name.removeprefix("%")
    for node in nodes:
        if wanted == node.name or any(wanted == value.name for value in node.outputs):
            return node  # type: ignore[no-any-return]
    ending = [node for node in nodes if (node.name or "").endswith(f"/{wanted}")]
    if len(ending) == 1:
        return ending[0]  # type: ignore[no-any-return]
    if ending:
        raise OptionError(
            f"{len(ending)} nodes of {file} are named so: {', '.join(node.name for node in ending[:5])}; give a whole name"
        )
    known = {str(value.name) for node in nodes for value in node.outputs} | {str(node.name) for node in nodes}
    raise OptionError(
        f"{file} has no node or value {name!r}{nearest(wanted, known)}; "
        f"to fix this, choose one that `onnxexp explain {file}` lists"
    )


def _describe(node: ir.Node, origin: NodeOrigin, output: Output) -> None:
    from onnxexp._model.type_text import type_text

    values = [f"%{value.name}: {type_text(value)}" for value in node.outputs if value.name]
    output.line(one_line(f"{', '.join(values)} = {node.domain + '.' if node.domain else ''}{node.op_type}"))
    module = f"{origin.scope} ({origin.module})" if origin.scope and origin.module else origin.scope or origin.module
    pairs = {
        "node": node.name or "",
        "inputs": ", ".join(f"%{value.name}: {type_text(value)}" for value in node.inputs if value is not None),
        "module": module,
        "source": origin.source,
        "torch": f"%{origin.node} = {origin.op}" if origin.op else "",
        "lowered by": _maker(origin),
    }
    output.pairs({f"  {name}": text for name, text in pairs.items() if text})


def _maker(origin: NodeOrigin) -> str:
    if origin.made_by:
        return f"the pass {origin.made_by}"
    if origin.symbolic:
        return f"{origin.symbolic} (plugin {origin.plugin})"
    return "the core" if origin.op or origin.plugin else ""


def _document(node: ir.Node, origin: NodeOrigin) -> dict[str, Any]:
    return {
        "name": node.name,
        "op_type": node.op_type,
        "outputs": [value.name for value in node.outputs],
        **dataclasses.asdict(origin),
    }
