"""Reading a TorchScript graph: its constants, and the places of its nodes."""

from __future__ import annotations

import os

import pytest
import torch

from onnxexp._neutral_graph import TensorType, Value
from onnxexp_torchscript.conversion.interpreter import Interpreter
from onnxexp_torchscript.jit.source_locations import Places
from onnxexp_torchscript.jit_converter import TABLES
from onnxexp_torchscript.types.type_inference import TypeInference

_CONSTANTS = """
graph(%x : Tensor):
  %unused : Long(2, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value=<Tensor>]()
  %tensor : Long(2, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value=<Tensor>]()
  %none : NoneType = prim::Constant()
  %ints : int[] = prim::Constant[value=[3, 4]]()
  %y : Tensor = aten::mul(%x, %tensor)
  %z : Tensor = aten::mul(%y, %tensor)
  return (%z, %tensor, %none, %ints, %ints)
"""


def _read(source: str) -> tuple[Interpreter, list[object]]:
    graph = torch._C.parse_ir(source, parse_tensor_constants=True)
    reader = Interpreter(TypeInference(), Places({}), TABLES, traced=False)
    for value in graph.inputs():
        reader.env[value.unique()] = Value("x", TensorType(torch.int64, (2,)))
    return reader, reader.block(graph.block())


def test_a_constant_is_read_once() -> None:
    reader, (_, tensor, none, ints, again) = _read(_CONSTANTS)
    assert [node.args[1] for node in reader.root.nodes] == [tensor, tensor]
    assert list(reader.root.params)[1:] == [tensor]
    assert none is None and ints == [3, 4] and ints is again


class _Node:
    """A node that torch would have recorded there."""

    def __init__(self, source: str) -> None:
        self._source = source

    def sourceRange(self) -> str:
        return self._source

    def scopeName(self) -> str:
        return ""


_NN = os.path.join(os.path.dirname(torch.__file__), "nn", "modules")
_LINEAR = f"{_NN}/linear.py(7): forward"
_CALL = f"{_NN}/module.py(9): _call_impl"
_USER = f"{__file__}(3): <lambda>"
_COMPILED = f'  File "{__file__}", line 3\ndef f(x):\n    return x + g(3) <--- HERE\n'


@pytest.mark.parametrize(
    ("source", "file", "line"),
    [
        (f"{_LINEAR}\n{_CALL}\n{_USER}\n{__file__}(5): outer\n", __file__, 3),
        (f"{_CALL}\n{_LINEAR}\n{_CALL}\n", f"{_NN}/linear.py", 7),
        ("/home/me (1)/model.py(12): forward\n", "/home/me (1)/model.py", 12),
        (f"{_CALL}\n", "", 0),
        ("", "", 0),
        (_COMPILED, __file__, 3),
    ],
    ids=["the user's innermost line", "torch's module", "parentheses in a path", "neither", "nothing", "compiled"],
)
def test_the_line_of_a_node(source: str, file: str, line: int) -> None:
    where = Places({}).where(_Node(source))
    assert (where.file, where.line) == (file, line)
