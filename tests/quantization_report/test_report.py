"""`onnxexp quantization-report`: ONNX Runtime's graph shows the integer layers."""

from __future__ import annotations

import html.parser
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import onnxexp
from onnxexp._model import onnxruntime_session
from onnxexp_quantization_report import example_feeds, measured_run, model_file
from onnxexp_quantization_report.layers import FIXES, FLOAT, INTEGER, NOT_QUANTIZED, Layer, layers
from onnxexp_quantized import Quantized
from tests.core.commanding import Ran, run
from tests.quantized.static_models import Residual, eager

Capsys = pytest.CaptureFixture[str]
K, N = 64, 32
INT4 = ir.DataType.INT4
COMMAND = "quantization-report"


class Net:
    """A graph under construction, with nodes called `the Conv 0` and so on."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def constant(self, value: Any) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], name=f"the {operator} {len(self.nodes)}", **attributes))
        return output

    def q(self, x: str, zero: int = 128, scale: float = 0.05, dtype: Any = np.uint8) -> str:
        return self("QuantizeLinear", x, np.float32(scale), dtype(zero))

    def dq(self, x: str, zero: int = 128, scale: float = 0.05, dtype: Any = np.uint8) -> str:
        return self("DequantizeLinear", x, np.float32(scale), dtype(zero))

    def qdq(self, x: str, zero: int = 128, scale: float = 0.05, dtype: Any = np.uint8) -> str:
        return self.dq(self.q(x, zero, scale, dtype), zero, scale, dtype)

    def weight(self, *shape: int, axis: int = 1, zero: bool = True, dtype: Any = np.int8) -> str:
        """Add a dequantized weight with a scale for each channel."""
        channels = shape[axis]
        integers = self.random.integers(0, 100, shape).astype(dtype)
        zeros = [np.zeros(channels, dtype)] if zero else []
        return self("DequantizeLinear", integers, np.full(channels, 0.01, np.float32), *zeros, axis=axis)

    def zeros(self, dtype: ir.DataType, *shape: int, scales: tuple[int, ...] = (), **attributes: Any) -> str:
        """Add a dequantized weight of zeros, in a type that numpy lacks."""
        names = []
        for sizes in (shape, scales):
            names.append(f"c{len(self.weights)}")
            self.weights.append(ir.to_proto(ir.tensor(np.zeros(sizes, dtype.numpy()), dtype=dtype, name=names[-1])))
        return self("DequantizeLinear", names[0], np.full(scales, 0.1, np.float32), names[1], **attributes)

    @property
    def bias(self) -> Any:
        return np.ones(N, np.float32)

    def conv(self, x: str, **attributes: Any) -> str:
        return self("Conv", x, self.weight(8, 8, 3, 3, axis=0), np.ones(8, np.float32), **attributes)

    def model(self, output: str, *shape: int) -> onnx.ModelProto:
        ends = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape]),
            helper.make_tensor_value_info(output, TensorProto.FLOAT, None),
        ]
        graph = helper.make_graph(self.nodes, "net", ends[:1], ends[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def found(net: Callable[[Net], str], folder: Path, *shape: int) -> list[Layer]:
    """Return the layers of a net."""
    graph = Net()
    file = model_file.load(ir.from_proto(graph.model(net(graph), *shape)), "net")
    measured = measured_run.run(file, example_feeds.random_feeds(file.model, {"batch": 2}), 1, folder, threads=1)
    return layers(file, measured.graph)


Nets = dict[str, tuple[Callable[[Net], str], str, str]]
"""Graphs by name, each with the operator that runs instead of its layer, and the code of the reason."""

LINEAR: Nets = {
    "static": (lambda g: g.qdq(g("Gemm", g.qdq("x"), g.weight(K, N), g.bias)), "QGemm", ""),
    "relu": (lambda g: g.qdq(g("Relu", g("Gemm", g.qdq("x"), g.weight(K, N), g.bias)), 0), "QGemm", ""),
    "no result": (lambda g: g("MatMul", g.qdq("x"), g.weight(K, N)), "MatMulIntegerToFloat", ""),
    "both": (lambda g: g.qdq(g("MatMul", g.qdq("x"), g("Transpose", g.qdq("x"), perm=[1, 0]))), "QLinearMatMul", ""),
    "weights only": (lambda g: g("MatMul", "x", g.weight(K, N)), "MatMulNBits", ""),
    "no zero point": (lambda g: g.qdq(g("Gemm", g.qdq("x"), g.weight(K, N, zero=False), g.bias)), "Gemm", "no-zero-point"),
    "float bias": (lambda g: g("Gemm", g.qdq("x"), g.weight(K, N), g.bias), "Gemm", "float-bias"),
    "float bias, added": (lambda g: g("Add", g("MatMul", g.qdq("x"), g.weight(K, N)), g.bias), "Gemm", "float-bias"),
    "4 bits": (lambda g: g.qdq(g("MatMul", g.qdq("x"), g.zeros(INT4, K, N))), "MatMul", "4-bit-weight"),
    "4 bits, blocks along N": (
        lambda g: g("MatMul", "x", g.zeros(INT4, K, N, scales=(K, 2), axis=1, block_size=16)), "MatMul", "block-axis",
    ),
    "8-bit floats": (lambda g: g("MatMul", "x", g.zeros(ir.DataType.FLOAT8E4M3FN, K, N)), "MatMul", "float8"),
    "transposed": (lambda g: g("Gemm", "x", g.weight(N, K, axis=0), transB=1), "Gemm", "transposed-weight"),
    "relu and zero point": (
        lambda g: g.qdq(g("Relu", g("Gemm", g.qdq("x"), g.weight(K, N), g.bias))), "FusedGemm", "relu-zero-point",
    ),
    "16 bits": (
        lambda g: g.qdq(g("Gemm", g.qdq("x", 0, dtype=np.uint16), g.weight(K, N), g.bias), 0, dtype=np.uint16), "MatMulNBits", "",
    ),
    "cast": (
        lambda g: g("Mul", g("MatMul", "x", g("Cast", np.ones((K, N), np.int8), to=1)), np.float32(0.1)),
        "FusedMatMul", "cast-weight",
    ),
    "between": (lambda g: g.qdq(g("Tanh", g("Gemm", g.qdq("x"), g.weight(K, N), g.bias))), "FusedGemm", "between"),
    "float input": (lambda g: g.qdq(g("MatMul", g.qdq("x"), g("Transpose", "x", perm=[1, 0]))), "FusedMatMul", "not-quantized"),
    "float": (lambda g: g("Gemm", "x", np.ones((K, N), np.float32)), "Gemm", "not-quantized"),
}  # fmt: skip
IMAGES: Nets = {
    "static": (lambda g: g.qdq(g.conv(g.qdq("x"))), "QLinearConv", ""),
    "no result": (lambda g: g.conv(g.qdq("x")), "Conv", "no-quantize"),
    "16 bits": (lambda g: g.qdq(g.conv(g.qdq("x", 0, dtype=np.uint16)), 0, dtype=np.uint16), "Conv", "16-bit"),
    "4 bits": (lambda g: g.qdq(g("Conv", g.qdq("x"), g.zeros(INT4, 8, 8, 3, 3))), "Conv", "4-bit-weight"),
    "clip": (lambda g: g.qdq(g("Clip", g.conv(g.qdq("x")), np.float32(0), np.float32(3))), "FusedConv", "clip"),
    "weights only": (lambda g: g.conv("x"), "Conv", "weight-only"),
    "transposed": (
        lambda g: g.qdq(g("ConvTranspose", g.qdq("x"), g.weight(8, 8, 3, 3))), "ConvTranspose", "no-kernel",
    ),
    "add": (lambda g: g.qdq(g("Add", g.qdq("x"), g.qdq("x", scale=0.1))), "QLinearAdd", ""),
    "add, float": (lambda g: g.qdq(g("Add", g.qdq("x"), g("Sqrt", "x"))), "Add", "float-input"),
    "add, relu": (lambda g: g.qdq(g("Relu", g("Add", g.qdq("x"), g.qdq("x", scale=0.1)))), "Add", "relu-zero-point"),
    "pool": (lambda g: g.qdq(g("AveragePool", g.qdq("x"), kernel_shape=[2, 2])), "QLinearAveragePool", ""),
    "max pool": (lambda g: g.dq(g("MaxPool", g.q("x"), kernel_shape=[2, 2])), "MaxPool", ""),
    "max pool, scales": (
        lambda g: g.qdq(g("MaxPool", g.qdq("x"), kernel_shape=[2, 2]), scale=0.06), "MaxPool", "parameters",
    ),
    "hardswish": (lambda g: g.qdq(g("HardSwish", g.qdq("x"))), "Mul", "no-kernel"),
    "sigmoid": (lambda g: g.qdq(g("Sigmoid", g.qdq("x")), 0, 1 / 256), "QLinearSigmoid", ""),
    "concat": (lambda g: g.qdq(g("Concat", g.qdq("x"), g.qdq("x", scale=0.1), axis=1)), "QLinearConcat", ""),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), [*(("linear", name) for name in LINEAR), *(("images", name) for name in IMAGES)])
def test_states_and_reasons(kind: str, name: str, tmp_path: Path) -> None:
    net, ran_as, code = (LINEAR if kind == "linear" else IMAGES)[name]
    (layer,) = found(net, tmp_path, *((K,) if kind == "linear" else (8, 8, 8)))
    assert (layer.ran_as, layer.code) == (ran_as, code), layer
    assert layer.state == (INTEGER if not code else NOT_QUANTIZED if code == "not-quantized" else FLOAT)
    assert layer.fix == FIXES.get(code, "") and bool(layer.reason) == bool(code)
    assert layer.name.startswith(f"the {layer.operator}")


def test_every_reason_has_a_test() -> None:
    tested = {code for _, _, code in [*LINEAR.values(), *IMAGES.values()] if code}
    assert tested | {"embedding", "float-use", "unknown"} == {*FIXES}


def test_the_page_of_the_documentation_has_every_fix() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "quantization-report.md").read_text("utf-8")
    assert [fix for fix in FIXES.values() if f" | {fix} |" not in page] == []


def test_a_table_that_is_dequantized_as_a_whole(tmp_path: Path) -> None:
    (layer,) = found(lambda g: g("Add", "x", g("Gather", g.weight(N, K, axis=0), np.array([1, 2]))), tmp_path, K)
    assert (layer.operator, layer.state, layer.code) == ("Gather", FLOAT, "embedding")


def test_a_result_that_is_used_in_float_too(tmp_path: Path) -> None:
    def net(g: Net) -> str:
        y = g.conv(g.qdq("x"))
        return g("Sub", g.qdq(y), g("Exp", y))

    layer = found(net, tmp_path, 8, 8, 8)[0]
    assert (layer.ran_as, layer.code) == ("Conv", "float-use") and "Exp takes it" in layer.reason


def test_dynamically_quantized_and_qlinear_nodes(tmp_path: Path) -> None:
    def net(g: Net) -> str:
        g.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "scale", "zero"]))
        product = g("MatMulInteger", "xq", np.ones((K, N), np.int8), "zero", np.int8(0))
        y = g("Mul", g("Cast", product, to=1), g("Mul", "scale", np.float32(0.01)))
        one, zero = np.float32(0.05), np.uint8(128)
        weight = np.ones((N, N), np.int8)
        return g.dq(g("QLinearMatMul", g.q(g("Add", y, g.bias)), one, zero, weight, one, np.int8(0), one, zero))

    first, second = found(net, tmp_path, K)
    assert (first.operator, first.ran_as, first.state) == ("MatMulInteger", "DynamicQuantizeMatMul", INTEGER)
    assert (second.ran_as, second.state) == ("QLinearMatMul", INTEGER)


def test_nodes_of_inner_graphs(tmp_path: Path) -> None:
    def net(g: Net) -> str:
        branches, outer = [], g.nodes
        for _ in range(2):
            g.nodes = []
            output = g("Gemm", "x", g.weight(K, K, axis=0), transB=1)
            branches.append(helper.make_graph(g.nodes, "branch", [], [helper.make_tensor_value_info(output, 1, None)]))
        g.nodes = outer
        condition = g("Greater", g("ReduceMax", "x", keepdims=0), np.float32(0))
        return g("If", condition, then_branch=branches[0], else_branch=branches[1])

    graph = Net()
    file = model_file.load(ir.from_proto(graph.model(net(graph), K)), "net")
    measured = measured_run.run(file, example_feeds.random_feeds(file.model, {}), 2, tmp_path, threads=1)
    found = layers(file, measured.graph)
    measured_run.time_layers(found, measured)
    assert [(layer.ran_as, layer.code) for layer in found] == [("Gemm", "transposed-weight")] * 2
    assert [layer.seconds is None for layer in found].count(True) == 1, "one branch is taken"
    assert "If" not in measured.operators


# The command


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide quant.onnx, float.onnx, and a models.py that makes the float model."""
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)
    torch.save(model.state_dict(), folder / "weights.pt")
    dynamic = ({0: "batch", 2: "height"},)
    onnxexp.export(model, (x,), folder / "float.onnx", dynamic_shapes=dynamic)
    onnxexp.export(eager(model, x), (x,), folder / "quant.onnx", dynamic_shapes=dynamic)
    (folder / "models.py").write_text(
        "import torch\nfrom tests.quantized.static_models import Residual\n\n"
        "def make():\n    model = Residual()\n"
        f"    model.load_state_dict(torch.load({str(folder / 'weights.pt')!r}))\n    return model, torch.randn(2, 3, 8, 8)\n"
    )
    return folder


def report(capsys: Capsys, file: Path, *arguments: str) -> Ran:
    return run(capsys, COMMAND, str(file), "--runs", "1", "--threads", "1", *arguments)


def test_a_model_against_its_float_model(files: Path, capsys: Capsys) -> None:
    sizes = ["--sizes", "batch=3,height=12"]
    document = report(capsys, files / "quant.onnx", "--against", str(files / "float.onnx"), *sizes, "--json").document
    assert document["inputs"] == {"x": [3, 3, 12, 8]} and document["ok"]
    assert {each["operator"] for each in document["layers"]} >= {"Conv", "Add", "Gemm"}
    for layer in document["layers"]:
        assert layer["state"] == INTEGER and layer["seconds"] > 0, layer
        assert 15 < layer["sqnr"] < 45 and 0 < layer["max_error"] < 1, layer
    assert document["layers"][0]["scope"] == "first" and "static_models.py:" in document["layers"][0]["source"]
    (output,) = document["outputs"]
    assert output["sqnr"] == pytest.approx(document["layers"][-1]["sqnr"])
    assert document["seconds"] == pytest.approx(sum(document["operators"].values()))
    same = report(capsys, files / "quant.onnx", "--against", f"{files / 'models.py'}:make", *sizes, "--json").document
    for ours, theirs in zip(document["layers"], same["layers"], strict=True):
        assert ours["sqnr"] == pytest.approx(theirs["sqnr"], abs=0.1)


@pytest.mark.parametrize("style", ["qoperator", "ort"])
def test_operators_instead_of_pairs(style: str, files: Path, tmp_path: Path, capsys: Capsys) -> None:
    """The integers between them have a scale all the same."""
    model, x = Residual().eval(), torch.randn(2, 3, 8, 8)
    model.load_state_dict(torch.load(files / "weights.pt"))
    plugins = [Quantized(style=style), ...]
    onnxexp.export(eager(model, x), (x,), tmp_path / "model.onnx", dynamic_shapes=({0: "batch"},), plugins=plugins)
    found = report(capsys, tmp_path / "model.onnx", "--against", str(files / "float.onnx"), "--json").document["layers"]
    assert {"QLinearConv", "MaxPool"} < {layer["operator"] for layer in found}
    assert all(layer["state"] == INTEGER and 15 < layer["sqnr"] < 45 for layer in found), found


def test_weights_beside_the_model(files: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are in a second file, as for models of more than 1 GiB."""
    monkeypatch.setattr(onnxruntime_session, "_IN_MEMORY", 0)
    ran = report(capsys, files / "quant.onnx", "--against", str(files / "float.onnx"), "--json")
    assert ran.status == 0 and ran.document["ok"]


def test_the_text(files: Path, capsys: Capsys) -> None:
    ran = report(capsys, files / "quant.onnx", "--against", str(files / "float.onnx"))
    assert ran.status == 0 and re.search(r"^first/Conv +Conv +QLinearConv +integer +[\d.]+ % +[\d.]+ dB", ran.out, re.MULTILINE)
    assert re.search(r"^(\d+) of \1 layers ran as integers$", ran.out, re.MULTILINE) and "output output: " in ran.out


def test_a_float_model(files: Path, capsys: Capsys) -> None:
    """It is not quantized, so nothing fell back."""
    ran = report(capsys, files / "float.onnx", "--strict")
    assert ran.status == 0 and "0 of 3 layers ran as integers, 3 not quantized by the model" in ran.out


def write(net: Callable[[Net], str], path: Path, *shape: int) -> Path:
    graph = Net()
    onnx.save(graph.model(net(graph), *shape), path)
    return path


def test_strict(tmp_path: Path, capsys: Capsys) -> None:
    file = write(LINEAR["float bias"][0], tmp_path / "model.onnx", K)
    assert report(capsys, file).status == 0
    ran = report(capsys, file, "--strict")
    assert ran.status == 1 and "0 of 1 layer ran as integers, 1 fell back to float" in ran.out
    assert f"the Gemm 3: {FIXES['float-bias']}" in ran.out
    document = report(capsys, file, "--json").document
    assert not document["ok"] and document["layers"][0]["fix"] == FIXES["float-bias"]


class Balanced(html.parser.HTMLParser):
    """A parser that checks that each element ends."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not [value for _, value in attrs if value and "//" in value], "nothing from elsewhere"
        if tag not in ("meta", "br", "line", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "rect"):
            assert self.open.pop() == tag


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the names of files are Unicode")
def test_the_page_of_a_file_whose_name_is_no_unicode(files: Path, tmp_path: Path, capsys: Capsys) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.onnx"))
    file.write_bytes((files / "quant.onnx").read_bytes())
    assert report(capsys, file, "--html", str(tmp_path / "page.html")).status == 0
    assert r"Quantization report: m\udcff.onnx" in (tmp_path / "page.html").read_text("utf-8")


def test_the_page(files: Path, tmp_path: Path, capsys: Capsys) -> None:
    page = tmp_path / "report.html"
    ran = report(capsys, files / "quant.onnx", "--against", str(files / "float.onnx"), "--html", str(page))
    assert ran.status == 0 and f"wrote {page}" in ran.out
    text = page.read_text("utf-8")
    parser = Balanced()
    parser.feed(text)
    assert not parser.open and parser.seen.count("svg") == 3 and "script" not in parser.seen
    assert "prefers-color-scheme: dark" in text and "first/Conv" in text and "QLinearConv" in text
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_names_are_escaped(tmp_path: Path, capsys: Capsys) -> None:
    graph = Net()
    model = graph.model(LINEAR["float bias"][0](graph), K)
    for node in model.graph.node:
        node.name = f"<b>&{node.op_type}"
    onnx.save(model, tmp_path / "model.onnx")
    assert report(capsys, tmp_path / "model.onnx", "--html", str(tmp_path / "page.html")).status == 0
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "<b>&" not in text and "&lt;b&gt;&amp;Gemm" in text


def test_given_inputs(files: Path, tmp_path: Path, capsys: Capsys) -> None:
    x = np.zeros((4, 3, 6, 8), np.float32)
    np.savez(tmp_path / "named.npz", x=x)
    np.savez(tmp_path / "numbered.npz", x)
    np.savez(tmp_path / "wrong.npz", y=x)
    for name in ("named", "numbered"):
        ran = report(capsys, files / "quant.onnx", "--input", str(tmp_path / f"{name}.npz"), "--json")
        assert ran.document["inputs"] == {"x": [4, 3, 6, 8]}
    ran = report(capsys, files / "quant.onnx", "--input", str(tmp_path / "wrong.npz"))
    assert ran.status == 2 and "has the arrays y; the model's inputs are x" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.onnx"], "there is no file none.onnx"),
        (["models.py"], "models.py is not an ONNX model"),
        (["quant.onnx", "--input", "none.npz"], "there is no file none.npz"),
        (["quant.onnx", "--input", "models.py"], "models.py is no .npz file"),
        (["quant.onnx", "--sizes", "batch"], "--sizes batch: expected NAME=SIZE"),
        (
            ["quant.onnx", "--sizes", "bach=2"],
            "no input has a dynamic axis 'bach' (did you mean 'batch'?); there are batch, height",
        ),
        (["quant.onnx", "--sizes", "height=0"], "Give inputs that fit with --input, or sizes with --sizes"),
        (["quant.onnx", "--input", "x.npz", "--sizes", "batch=2"], "give either --sizes or --input"),
        (["quant.onnx", "--runs", "0"], "--runs 0: expected at least 1"),
        (["quant.onnx", "--threads", "-1"], "--threads -1: expected at least 1"),
        (["quant.onnx", "--against", "none.onnx"], "there is no file none.onnx"),
        (["quant.onnx", "--against", "models.py:none"], "has no 'none'"),
        (["quant.onnx", "--html", "no/folder/page.html"], "does not exist. Create it"),
    ],
)
def test_bad_arguments(files: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(files)
    ran = run(capsys, COMMAND, *arguments)
    assert ran.status == 2 and message in ran.err, ran.err


def test_two_models_that_do_not_fit(files: Path, tmp_path: Path, capsys: Capsys) -> None:
    graph = Net()
    model = graph.model(graph("Identity", "x"), 3, 8, 8)
    model.graph.input.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1]))
    onnx.save(model, tmp_path / "other.onnx")
    ran = report(capsys, files / "quant.onnx", "--against", str(tmp_path / "other.onnx"))
    assert ran.status == 2 and "quant.onnx has the inputs x; the float model" in ran.err and "has x, y" in ran.err
