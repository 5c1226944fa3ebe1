"""Write a fault as a script that needs torch, onnx and ONNX Runtime alone."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnxexp._checking.evidence import Evidence
from onnxexp._model.printable_text import one_line
from onnxexp._neutral_graph import Node, Value
from onnxexp._serialize import WriteOptions, save
from onnxexp._serialize.atomic_file import OutputFile, file_errors
from onnxexp._torch_ops.schemas import overload


def write_repro(evidence: Evidence, text: str, folder: Path) -> Path:
    """Write ``repro.py``, ``model.onnx`` and ``data.pt`` into a folder.

    The folder is made where it does not exist.

    Returns the script's path.
    """
    with file_errors(str(folder), 0):
        folder.mkdir(parents=True, exist_ok=True)
    names = {value: f"v{index}" for index, value in enumerate(evidence.inputs)}
    calls = _calls(evidence, names)
    save(evidence.model, folder / "model.onnx", WriteOptions())
    inputs = {names[value]: tensor for value, tensor in evidence.inputs.items()}
    data = io.BytesIO()
    torch.save({"feeds": dict(evidence.feeds), "inputs": inputs, "expected": list(evidence.expected)}, data)
    OutputFile(folder / "data.pt").write(data.getbuffer())
    if calls is None:
        reference = ['expected = data["expected"]  # torch\'s results; the nodes have blocks, which a script cannot call']
    else:
        loads = [f'{names[value]} = data["inputs"]["{names[value]}"]  # {_comment(value)}' for value in evidence.inputs]
        results = ", ".join(names[output] for output in evidence.outputs)
        calling = [*loads, *calls.splitlines(), f"expected = [{results}]"]
        reference = ["try:", *(f"    {line}" for line in calling), *_UNREGISTERED]
    script = _SCRIPT.format(
        comment="\n".join(f"# {one_line(line)}".rstrip() for line in text.splitlines()), reference="\n".join(reference)
    )
    path = folder / "repro.py"
    OutputFile(path).write(script)
    return path


def _comment(value: Value) -> str:
    return one_line(f"%{value.name}: {value.type}")


def _calls(evidence: Evidence, names: dict[Value, str]) -> str | None:
    """Write the torch calls, a line for each node.

    Returns None if torch has no function for a node, or if a node has blocks.
    """
    lines = []
    for node in evidence.nodes:
        function = overload(node.op)
        if function is None or node.blocks:
            return None
        targets = []
        for output in node.outputs:
            names[output] = f"v{len(names)}"
            targets.append(names[output])
        arguments = ", ".join(_arguments(node, function, names))
        call = f"torch.ops.{function}({arguments})"
        comma = "," if _many(function) and len(targets) == 1 else ""
        where = one_line(str(node.where))
        lines.append(f"{', '.join(targets)}{comma} = {call}  # {where}".rstrip(" #"))
    return "\n".join(lines)


def _arguments(node: Node, function: Any, names: Mapping[Value, str]) -> list[str]:
    """Write every argument of a call that differs from the schema's default."""
    written: list[str] = []
    for formal, arg in zip(function._schema.arguments, node.args, strict=True):
        if formal.has_default_value() and not _values(arg) and arg == formal.default_value:
            continue
        text = _text(arg, names)
        written.append(f"{formal.name}={text}" if formal.kwarg_only or len(written) < _position(function, formal) else text)
    return written


def _position(function: Any, formal: Any) -> int:
    return [each.name for each in function._schema.arguments].index(formal.name)


def _many(function: Any) -> bool:
    returns = function._schema.returns
    return len(returns) > 1 or (len(returns) == 1 and str(returns[0].type).startswith("List["))


def _values(arg: Any) -> bool:
    return any(isinstance(each, Value) for each in pytree.tree_leaves(arg))


def _text(arg: Any, names: Mapping[Value, str]) -> str:
    if isinstance(arg, Value):
        return names[arg]
    if isinstance(arg, (list, tuple)):
        return f"[{', '.join(_text(each, names) for each in arg)}]"
    if (isinstance(arg, float) and arg != arg) or arg in (float("inf"), float("-inf")):
        return f'float("{arg}")'
    return f"torch.device({str(arg)!r})" if isinstance(arg, torch.device) else repr(arg)


_UNREGISTERED = [
    "except AttributeError:  # a custom operator: import the module that registers it to run it here",
    '    expected = data["expected"]  # torch\'s results in the run that found the fault',
]

_SCRIPT = '''{comment}
"""Run one fault in torch and in ONNX Runtime: python repro.py"""

from pathlib import Path

import onnxruntime
import torch

folder = Path(__file__).parent
data = torch.load(folder / "data.pt")

{reference}

session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
feeds = {{name: tensor.numpy() if isinstance(tensor, torch.Tensor) else tensor for name, tensor in data["feeds"].items()}}
results = session.run(None, feeds)
for output, torch_result, onnx_result in zip(session.get_outputs(), expected, results):
    one, other = torch.as_tensor(torch_result), torch.as_tensor(onnx_result)
    same = one.shape == other.shape and torch.allclose(one.double(), other.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
    error = (one.double() - other.double()).abs().max().item() if one.shape == other.shape and one.numel() else "?"
    print(f"{{output.name}}: {{'equal' if same else 'DIFFERENT'}}, max abs error {{error}}")
    print(f"  torch: {{tuple(one.shape)}} {{one.flatten()[:6].tolist()}}")
    print(f"  ONNX:  {{tuple(other.shape)}} {{other.flatten()[:6].tolist()}}")
'''
