"""Dynamic sizes of a finished file become numbers: `onnxexp fix`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import onnxexp
from onnxexp import OptionError
from onnxexp._cli import main
from onnxexp._model.fixed_sizes import dynamic_sizes, fix_sizes
from onnxexp._symbolic_size import SymbolicSize
from onnxexp.commands import read_model


class Attention(torch.nn.Module):
    """A convolution, whose result becomes a sequence: sizes are multiplied, and shapes computed."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        maps = self.convolution(x)
        batch, channels, height, width = maps.shape
        rows = maps.flatten(2).transpose(1, 2) + torch.arange(height * width).view(1, -1, 1)
        mixed = self.attention(rows, rows, rows)[0].transpose(1, 2).reshape(batch, channels, height, width)
        return mixed, torch.nn.functional.interpolate(maps, size=(height * 2, width + 1))


AXES = ({0: "batch", 2: "height", 3: "width"},)


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return Attention().eval()


@pytest.fixture(scope="module")
def file(model: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dynamic") / "model.onnx"
    onnxexp.export(model, (torch.randn(2, 3, 5, 6),), path, dynamic_shapes=AXES)
    return path


def _run(file: Path | bytes, *inputs: Any) -> list[Any]:
    session = onnxruntime.InferenceSession(file if isinstance(file, bytes) else str(file), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([each.name for each in session.get_inputs()], inputs, strict=True)))  # type: ignore[no-any-return]


def _text(text: str) -> Any:
    """Return the model of a text in ONNX's own language, through the bytes of a file."""
    return read_model(onnx.parser.parse_model(text).SerializeToString())


def _expressions(text: str) -> Any:
    """Return the model of a text whose sizes in quotes are expressions, which ONNX's language lacks."""
    sizes = re.findall(r'"([^"]*\w\*\w[^"]*)"', text)
    names = {f"expression_{index}": size for index, size in enumerate(sizes)}
    for name, size in names.items():
        text = text.replace(f'"{size}"', name)
    proto = onnx.parser.parse_model(text.replace('"t"', "t"))
    for value in proto.graph.input:
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param in names:
                size.dim_param = names[size.dim_param]
    return read_model(proto.SerializeToString())


def _nodes(model: Any) -> list[str]:
    return [node.op_type for node in model.graph]


@pytest.mark.parametrize("sizes", [(1, 7, 4), (3, 1, 1), (2, 5, 6)])
def test_all_sizes_become_numbers_and_what_is_constant_goes(
    model: torch.nn.Module, file: Path, tmp_path: Path, sizes: tuple[int, int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = tmp_path / "fixed.onnx"
    words = [f"{name}={size}" for name, size in zip(("batch", "height", "width"), sizes, strict=True)]
    assert main(["fix", str(file), *words, "-o", str(fixed), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["dynamic"] == [] and document["nodes"] < document["nodes_before"] / 2
    proto = onnx.load(str(fixed))
    onnx.checker.check_model(proto, full_check=True)
    values = [*proto.graph.input, *proto.graph.output, *proto.graph.value_info]
    assert all(size.HasField("dim_value") for value in values for size in value.type.tensor_type.shape.dim)
    x = torch.randn(sizes[0], 3, *sizes[1:])
    with torch.no_grad():
        for found, wanted in zip(_run(fixed, x.numpy()), model(x), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_other_sizes_stay_dynamic(file: Path, model: torch.nn.Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = tmp_path / "fixed.onnx"
    assert main(["fix", str(file), "batch=1", "-o", str(fixed)]) == 0
    assert "still dynamic: height, width" in capsys.readouterr().out
    output = onnx.load(str(fixed)).graph.output[1].type.tensor_type.shape.dim
    assert [size.dim_param or size.dim_value for size in output] == [1, 8, "2*height", "width + 1"]
    for height, width in ((4, 9), (9, 4), (1, 1)):
        x = torch.randn(1, 3, height, width)
        with torch.no_grad():
            for found, wanted in zip(_run(fixed, x.numpy()), model(x), strict=True):
                np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_a_file_may_be_fixed_in_place_and_further(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model.onnx"
    copy.write_bytes(file.read_bytes())
    for word in ("batch=1", "height=4", "width=4"):
        assert main(["fix", str(copy), word, "-o", str(copy)]) == 0
    assert dynamic_sizes(read_model(copy)) == []
    assert [found.shape for found in _run(copy, np.zeros((1, 3, 4, 4), np.float32))] == [(1, 8, 4, 4), (1, 8, 8, 5)]


def test_weights_in_a_data_file_are_kept(model: torch.nn.Module, file: Path, tmp_path: Path) -> None:
    pair = tmp_path / "pair.onnx"
    onnx.save(onnx.load(str(file)), str(pair), save_as_external_data=True, location="pair.bin", size_threshold=0)
    assert main(["fix", str(pair), "batch=1", "height=4", "width=4", "-o", str(pair)]) == 0
    x = torch.randn(1, 3, 4, 4)
    with torch.no_grad():
        np.testing.assert_allclose(_run(pair, x.numpy())[0], model(x)[0].numpy(), rtol=1e-4, atol=1e-5)


HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'


def test_sizes_without_names_are_fixed_by_a_whole_shape() -> None:
    made = _text(HEAD + "g (float[?, 4] x) => (int64[2] y) { y = Shape (x) }")
    assert dynamic_sizes(made) == []
    fix_sizes(made, {}, {"x": [3, 4]})
    assert list(made.graph.inputs[0].shape) == [3, 4]


def test_a_whole_shape_fixes_names_elsewhere() -> None:
    made = _text(HEAD + "g (float[n, 4] x, float[n, t] y) => (float[n, s] z) { z = Concat <axis = 1> (x, y) }")
    assert fix_sizes(made, {"t": 2}, {"x": [3, 4]}) == {"t": 2, "n": 3}
    assert list(made.graph.outputs[0].shape) == [3, 6]


def test_a_whole_shape_fits_expressions_of_fixed_sizes() -> None:
    text = HEAD + 'g (float["t", 4] x, float["2*t", 4] y) => (float[s, 4] z) { z = Concat <axis = 0> (x, y) }'
    for sizes, shapes in ({"t": 3}, {"y": [5, 4]}), ({}, {"y": [6, 4]}):
        with pytest.raises(OptionError, match=r"has the size 2\*t, and it is not .; to fix this, give t"):
            fix_sizes(_expressions(text), sizes, shapes)
    made = _expressions(text)
    assert fix_sizes(made, {}, {"x": [3, 4], "y": [6, 4]}) == {"t": 3}
    assert list(made.graph.outputs[0].shape) == [9, 4]


def test_a_slice_of_a_shape_without_axes_keeps_its_steps() -> None:
    made = _text(
        HEAD
        + """g (float[n, 4, 5, 6] x) => (int64[s] y) <int64[1] a = {0}, int64[1] b = {4}, int64[1] c = {2}> {
            shape = Shape (x)
            part = Slice (shape, a, b, , c)
            y = Neg (part)
        }"""
    )
    fix_sizes(made, {"n": 3})
    proto = onnxexp._serialize.to_proto(made)
    np.testing.assert_array_equal(_run(proto.SerializeToString(), np.zeros((3, 4, 5, 6), np.float32))[0], [-3, -5])


def test_a_size_that_is_no_whole_number_is_not_rounded() -> None:
    half = SymbolicSize("t/2 + u")
    assert half.bound({"t": 4}) == "u + 2" and not isinstance(half.bound({"t": 5}), int)
    assert not isinstance(SymbolicSize("t/2").bound({"t": 5}), int)


def _branching(alone: str, several: str) -> Any:
    """Return a model with an If on whether a size is 1."""
    return _text(
        HEAD
        + f"""g (float[n] x) => (float[n] y) <int64 one = {{1}}, int64 zero = {{0}}> {{
            shape = Shape (x)
            count = Gather (shape, zero)
            alone = Equal (count, one)
            y = If (alone) <
                then_branch = a () => (float[n] r) {{ {alone} }},
                else_branch = b () => (float[n] r) {{ {several} }}>
        }}"""
    )


def test_the_branch_that_always_runs_replaces_an_if() -> None:
    made = _branching("s = Neg (x)  r = Exp (s)", "s = Abs (x)  r = Log (s)")
    fix_sizes(made, {"n": 1})
    assert _nodes(made) == ["Neg", "Exp"]
    assert made.graph.outputs[0].name == "y"


def test_a_branch_may_return_what_is_outside() -> None:
    made = _branching("r = Neg (x)", "r = Identity (x)")
    fix_sizes(made, {"n": 3})
    proto = onnxexp._serialize.to_proto(made)
    onnx.checker.check_model(proto, full_check=True)
    x = np.asarray([1.0, -2.0, 3.0], np.float32)
    np.testing.assert_array_equal(_run(proto.SerializeToString(), x)[0], x)


def test_constants_in_bodies_keep_names_of_their_own() -> None:
    branch = "{{ s = Shape (x)  f = Cast <to = 1> (s)  r = {} (x, f) }}"
    made = _text(
        HEAD
        + f"""g (float[n] x, bool c) => (float[n] y) {{
            y = If (c) <
                then_branch = a () => (float[n] r) {branch.format("Add")},
                else_branch = b () => (float[n] r) {branch.format("Mul")}>
        }}"""
    )
    fix_sizes(made, {"n": 2})
    proto = onnxexp._serialize.to_proto(made)
    onnx.checker.check_model(proto, full_check=True)
    x = np.asarray([1.0, 5.0], np.float32)
    for condition, wanted in ((True, x + 2), (False, x * 2)):
        np.testing.assert_array_equal(_run(proto.SerializeToString(), x, np.asarray(condition))[0], wanted)


def test_an_initializer_that_is_an_input_is_no_constant() -> None:
    made = _text(HEAD + "g (float[n] x, float[1] w = {1.0}) => (float[n] y) { v = Neg (w)  y = Mul (x, v) }")
    fix_sizes(made, {"n": 2})
    assert _nodes(made) == ["Neg", "Mul"]


def test_broken_nodes_are_left_as_they_are() -> None:
    made = _text(
        HEAD
        + """g (float[n] x, bool c) => (float[n] y) <int64[2] two = {1, 1}, int64[1] three = {3}, bool yes = {1}> {
            a = Reshape (two, three)
            b = Concat (two, two)
            d = Transpose <perm = [7]> (two)
            e = If (yes) <then_branch = t () => (float[n] r, float[n] s) { r = Neg (x)  s = Neg (x) }>
            f = If ()
            y = Sum (a, b, d, e, f)
        }"""
    )
    fix_sizes(made, {"n": 2})
    assert _nodes(made) == ["Reshape", "Concat", "Transpose", "If", "If", "Sum"]


@pytest.mark.parametrize(
    ("sizes", "shapes", "message"),
    [
        ({"bach": 1}, {}, "no dynamic size 'bach' .did you mean 'batch'.*batch, height, width"),
        ({"batch": -1}, {}, "batch=-1: a size is not negative"),
        ({}, {"x": [1, 4, 5, 5]}, "axis 1 of input x is 3, not 4"),
        ({"batch": 2}, {"x": [1, 3, 5, 5]}, "axis 0 of input x is batch=2, not 1"),
        ({}, {"x": [1, 3]}, "input x has 4 axes"),
        ({}, {"y": [1]}, "no input 'y'.*use one of x"),
    ],
)
def test_what_contradicts_the_inputs_is_refused(file: Path, sizes: dict[str, int], shapes: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        fix_sizes(read_model(file), sizes, shapes)


def test_sizes_at_which_the_graph_does_not_work_are_refused() -> None:
    text = "g (float[n, 6] x) => (float[4, 3] y) <int64[2] sizes = {4, 3}> { y = Reshape (x, sizes) }"
    with pytest.raises(OptionError, match=r"does not work at n=3: .*another number of elements; to fix this"):
        fix_sizes(_text(HEAD + text), {"n": 3})
    fix_sizes(_text(HEAD + text), {"n": 2})
    with pytest.raises(OptionError, match=r"does not work at n=3: .*nference"):
        fix_sizes(_text(HEAD + "g (float[n, 6] x, float[2, 6] y) => (float[n, 6] z) { z = Add (x, y) }"), {"n": 3})


def test_a_restriction_of_the_export_is_kept(tmp_path: Path) -> None:
    class Cut(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, :8] if x.shape[1] > 8 else x * 2

    path = tmp_path / "cut.onnx"
    onnxexp.export(Cut(), (torch.randn(2, 12),), path, dynamic_shapes=({0: "n", 1: torch.export.Dim("t", min=9)},))
    with pytest.raises(OptionError, match="holds only for t >= 9"):
        fix_sizes(read_model(path), {"t": 8})
    assert fix_sizes(read_model(path), {"t": 9}) == {"t": 9}


@pytest.mark.parametrize("words", [[], ["batch"], ["batch=one"], ["=1"], ["batch=1,2"], ["--shape", "x"], ["--shape", "x=1,,3"]])
def test_a_wrong_size_on_the_command_line_is_explained(
    file: Path, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fix", str(file), *words, "-o", str(tmp_path / "fixed.onnx")]) == 2
    assert "to fix this, " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_file_of_torch_onnx_is_fixed(model: torch.nn.Module, tmp_path: Path) -> None:
    path, fixed = tmp_path / "peer.onnx", tmp_path / "fixed.onnx"
    example = (torch.randn(2, 3, 5, 6),)
    torch.onnx.export(
        model, example, path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "batch", 2: "height", 3: "width"}}
    )
    assert main(["fix", str(path), "batch=1", "height=5", "width=6", "-o", str(fixed)]) == 0
    x = torch.randn(1, 3, 5, 6)
    assert not {node.op_type for node in onnx.load(str(fixed)).graph.node} & {"Shape", "Range", "ConstantOfShape"}
    with torch.no_grad():
        for found, wanted in zip(_run(fixed, x.numpy()), model(x), strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)
