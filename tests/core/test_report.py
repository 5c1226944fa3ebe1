"""The printed graph, for people to read."""

from __future__ import annotations

import subprocess
import sys

import onnx_ir as ir
import pytest

from onnxexp._model.model_text import render
from onnxexp._model.type_text import bytes_text, place_of, type_text

GRAPH = """<ir_version: 10, opset_import: ["": 20, "my.domain": 1], producer_name: "onnxexp", producer_version: "1.2">
net (float[batch, 3] x, float16[2, N] y, bool c) => (float[batch, 3] z, int64[1] s)
<float[3] small = {1, 2.5, 3}, float[2, 8] big = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, int64[1] axis = {-1}> {
  [n0] a = Add(x, small)
  [n1] b = LeakyRelu <alpha: float = 0.1> (a)
  [n2] d = my.domain.twice <k: int = 3> (b)
  [n3] e = Concat <axis: int = -1> (big, big)
  [n4] z = If (c) <
    then_branch: graph = yes () => (float[batch, 3] t) { t = Mul(d, a) },
    else_branch: graph = no () => (float[batch, 3] n) { q = Sub(d, a) n = Neg(q) }
  >
  [n5] h = Cast <to: int = 10> (x)
  [n6] r = Resize <mode: string = "linear"> (y, , axis)
  [n7] s = Constant <value: tensor = int64[1] {-1}> ()
}
<domain: "my.domain", opset_import: ["": 20]>
twice <k> (v) => (w) { u = Constant <value_int: int = @k> () w = Add(v, v) }
"""

PLACES = ["enc", "enc.act", "enc.act", "enc.actor", "", "dec.0.x", "dec.0.x", "dec.1"]

PRINTED = """\
# onnxexp 1.2, ONNX IR 10, opset ai.onnx 20, my.domain 1
# initializers: 3 (84 bytes): 2 float32, 1 int64
graph net (
    %x: float32[batch, 3],
    %y: float16[2, batch + 1],
    %c: bool[],
) -> (
    %z: float32[batch, 3],
    %s: int64[1],
) {
  [enc]
    %a: ? = Add(%x, %small)  # net.py:0
    [enc.act]
      %b: ? = LeakyRelu(%a, alpha=0.1)  # net.py:1
      %d: ? = my.domain.twice(%b, k=3)  # net.py:2
    [enc.actor]
      %e: ? = Concat(%big, %big, axis=-1)  # net.py:3
  %z: float32[batch, 3] = If(%c)  # net.py:4
    then_branch() {
      %t: float32[batch, 3] = Mul(%d, %a)
      return %t
    }
    else_branch() {
      %q: ? = Sub(%d, %a)
      %n: float32[batch, 3] = Neg(%q)
      return %n
    }
  [dec.0.x]
    %h: ? = Cast(%x, to=float16)  # net.py:5
    %r: ? = Resize(%y, None, [-1], mode='linear')  # net.py:6
  [dec.1]
    %s: int64[1] = Constant(value=[-1])  # net.py:7
}

function my.domain.twice(%v, k) {
  %u: ? = Constant(value_int=@k)
  %w: ? = Add(%v, %v)
  return %w
}"""


@pytest.fixture
def model() -> ir.Model:
    made = ir.from_onnx_text(GRAPH)
    made.graph.inputs[1].shape = ir.Shape([2, "batch + 1"])
    for index, (node, scope) in enumerate(zip(made.graph, PLACES, strict=True)):
        facts = {"onnxexp.scope": scope, "onnxexp.op": "torch::op", "onnxexp.source": f"net.py:{index}"}
        node.metadata_props.update({key: value for key, value in facts.items() if value})
    return made


def test_printed_graph(model: ir.Model) -> None:
    assert render(model) == PRINTED


def test_printed_graph_is_ascii(model: ir.Model) -> None:
    model.graph[0].metadata_props["onnxexp.source"] = "größe.py:1"
    model.graph.inputs[0].name = "eingabe_ü"
    text = render(model)
    assert text.isascii() and "gr\\xf6\\xdfe.py:1" in text and "%eingabe_\\xfc: float32[batch, 3]" in text


def test_place_of_a_node(model: ir.Model) -> None:
    assert place_of(model.graph[1]) == "n1 (LeakyRelu), from enc.act, torch::op, net.py:1"
    assert place_of(ir.Node("", "Neg", [])) == "a node (Neg)"


@pytest.mark.parametrize(
    ("type_", "shape", "text"),
    [
        (None, None, "?"),
        (ir.TensorType(ir.DataType.FLOAT), None, "float32[...]"),
        (ir.TensorType(ir.DataType.BFLOAT16), ir.Shape([]), "bfloat16[]"),
        (ir.TensorType(ir.DataType.INT4), ir.Shape([None, "n", 3]), "int4[?, n, 3]"),
        (ir.TensorType(ir.DataType.STRING), ir.Shape([1]), "string[1]"),
        (ir.SequenceType(ir.TensorType(ir.DataType.INT64)), None, "sequence(int64[...])"),
        (ir.OptionalType(ir.SequenceType(ir.TensorType(ir.DataType.BOOL))), ir.Shape([2]), "optional(sequence(bool[2]))"),
    ],
)
def test_types(type_: ir.TypeProtocol | None, shape: ir.Shape | None, text: str) -> None:
    assert type_text(ir.Value(name="x", type=type_, shape=shape)) == text


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (ir.AttrFloat32("a", 1.0), "a=1.0"),
        (ir.AttrFloat32("a", 1e-12), "a=1e-12"),
        (ir.AttrFloat32("a", float("inf")), "a=inf"),
        (ir.AttrFloat32s("a", [0.1, 2]), "a=[0.1, 2.0]"),
        (ir.AttrInt64s("a", [1, -2]), "a=[1, -2]"),
        (ir.AttrString("a", "it's"), 'a="it\'s"'),
        (ir.AttrStrings("a", ["x", "y"]), "a=['x', 'y']"),
        (ir.AttrInt64("to", 16), "to=bfloat16"),
        (ir.AttrInt64("to", 999), "to=999"),
        (ir.AttrTensor("a", ir.tensor([[1.0], [2.0]])), "a=[[1.0], [2.0]]"),
        (ir.AttrTensor("a", ir.tensor(list(range(20)))), "a=<int64[20]>"),
        (ir.AttrTensor("a", ir.StringTensor([b"x"], shape=ir.Shape([1]))), "a=[b'x']"),
    ],
)
def test_attributes(attribute: ir.Attr, text: str) -> None:
    node = ir.Node("", "Op", [], [attribute])
    node.outputs[0].name = "y"
    graph = ir.Graph([], node.outputs, nodes=[node], opset_imports={"": 20})
    assert f"%y: ? = Op({text})" in render(ir.Model(graph, ir_version=10))


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (438_000_000, "438.0 MB"), (10**9, "1.0 GB"), (10**17, "100000.0 TB")],
)
def test_sizes(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_importing_the_package_does_not_import_the_runtime() -> None:
    code = "import sys, onnxexp; print('onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
