"""`ONNXProgram` of models made by hand: calls, arguments, runtime, saving."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from torch.utils import _pytree as pytree

from onnxexp._builder.dtypes import onnx_dtype
from onnxexp._errors import OnnxExporterError
from onnxexp._model import onnxruntime_session
from onnxexp._model.onnxruntime_session import Session
from onnxexp._model.signature import InputSlot, OutputSlot, Signature
from onnxexp._program.program import ONNXProgram

HEADER = '<ir_version: 10, opset_import: ["": 20]>'


def model(graph: str) -> ir.Model:
    """Parse a model in ONNX's own text format."""
    return ir.from_onnx_text(HEADER + graph)


def program(
    graph: str,
    forward: Callable[..., Any],
    *args: Any,
    feeds: dict[str, int],
    outputs: list[OutputSlot] | None = None,
    constants: dict[int, Any] | None = None,
    **kwargs: Any,
) -> ONNXProgram:
    """Build a program for `forward`, as the pipeline would from this example."""
    out_spec = pytree.tree_structure(forward(*args, **kwargs))
    signature = Signature(
        [InputSlot(name, leaf) for name, leaf in feeds.items()],
        outputs or [OutputSlot(output) for output in range(out_spec.num_leaves)],
        pytree.tree_structure((args, kwargs)),
        out_spec,
        constants or {},
        inspect.signature(forward),
    )
    return ONNXProgram(model(graph), signature=signature, eager=forward, example=(args, kwargs))


ADD = "g (float[N] a, float[N] b) => (float[N] c) { c = Add(a, b) }"


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


torch.export.register_dataclass(Pair)


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def test_structures_in_and_out() -> None:
    def forward(pair: Pair, rest: dict[str, Any], *, last: tuple[torch.Tensor, None]) -> dict[str, Any]:
        return {"both": Pair(pair.left + pair.right, rest["x"][0] - last[0]), "none": None, "same": [rest["x"][0]]}

    call = ((Pair(numbers(1), numbers(2)), {"x": [numbers(3)]}), {"last": (numbers(4), None)})
    exported = program(
        "g (float[N] l, float[N] r, float[N] x, float[N] y) => (float[N] s, float[N] d) { s = Add(l, r) d = Sub(x, y) }",
        forward,
        *call[0],
        feeds={"l": 0, "r": 1, "x": 2, "y": 3},
        outputs=[OutputSlot(0), OutputSlot(1), OutputSlot(constant=None), OutputSlot(leaf=2)],
        constants={4: None},
        **call[1],
    )
    result = exported(Pair(numbers(1, 1), numbers(2, 2)), {"x": [numbers(3, 3)]}, last=(numbers(4, 4), None))
    assert isinstance(result["both"], Pair) and result["none"] is None
    assert result["both"].left.tolist() == [3, 3] and result["both"].right.tolist() == [-1, -1]
    assert result["same"][0].tolist() == [3, 3]
    assert exported.verify().ok


def optional(a: torch.Tensor, b: torch.Tensor, scale: float = 1.0, mask: torch.Tensor | None = None) -> torch.Tensor:
    return a + b


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (2, {}),
        (1, {"b"}),
        (0, {"b", "a"}),
        (1, {"b", "mask"}),
    ],
)
def test_arguments_by_position_and_by_name(args: int, kwargs: set[str]) -> None:
    exported = program(ADD, optional, numbers(1), numbers(2), feeds={"a": 0, "b": 1})
    values = {"a": numbers(3), "b": numbers(5), "mask": None}
    given = {name: values[name] for name in sorted(kwargs, reverse=True)}
    assert exported(*list(values.values())[:args], **given).tolist() == [8]


def test_example_by_name_called_by_position() -> None:
    exported = program(ADD, optional, feeds={"b": 0, "a": 1}, b=numbers(1), a=numbers(2))
    assert exported(numbers(3), numbers(5)).tolist() == [8]


def test_dict_order_does_not_matter() -> None:
    exported = program(
        "g (float[N] a, float[N] b) => (float[N] c) { c = Sub(a, b) }",
        lambda d: d["a"] - d["b"],
        {"a": numbers(1), "b": numbers(1)},
        feeds={"a": 0, "b": 1},
    )
    assert exported({"b": numbers(1), "a": numbers(3)}).tolist() == [2]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((numbers(1),), {}, r"missing a required argument: 'b'; the exported model takes \(a: "),
        ((numbers(1), numbers(2)), {"nonsense": 1}, "unexpected keyword argument 'nonsense'"),
        ((numbers(1), numbers(2), 2.0), {}, "exported without scale"),
        ((numbers(1), numbers(2)), {"mask": numbers(1)}, "exported without mask"),
        ((numbers(1), (numbers(2),)), {}, r"input b is float32\[N\], the call gives \(tensor"),
        ((numbers(1), None), {}, r"input b is float32\[N\], the call gives None"),
        ((numbers(1), numbers(2).double()), {}, r"input b is float32\[N\], the call gives float64\[1\]"),
        ((numbers(1), torch.zeros(2, 3)), {}, r"input b is float32\[N\], the call gives float32\[2, 3\]"),
    ],
)
def test_calls_that_do_not_fit(args: Any, kwargs: Any, message: str) -> None:
    exported = program(ADD, optional, numbers(1), numbers(2), feeds={"a": 0, "b": 1})
    with pytest.raises(OnnxExporterError, match=message):
        exported(*args, **kwargs)


def test_other_structure_and_other_constant() -> None:
    def forward(pair: list[torch.Tensor], mode: str) -> torch.Tensor:
        return pair[0] + pair[1]

    exported = program(ADD, forward, [numbers(1), numbers(2)], "up", feeds={"a": 0, "b": 1}, constants={2: "up"})
    assert exported([numbers(1), numbers(2)], "up").tolist() == [3]
    with pytest.raises(OnnxExporterError, match=r"args\[1\] is fixed to 'up' in this program, the call gives 'down'"):
        exported([numbers(1), numbers(2)], "down")
    with pytest.raises(OnnxExporterError, match="not built like the example"):
        exported([numbers(1), numbers(2), numbers(3)], "up")


def test_python_numbers_in_and_out() -> None:
    exported = program(
        "g (int64 n, float f, bool c) => (int64 m, float h, bool d) { m = Neg(n) h = Neg(f) d = Not(c) }",
        lambda n, f, c: (-n, -f, not c),
        2,
        1.5,
        True,
        feeds={"n": 0, "f": 1, "c": 2},
        outputs=[OutputSlot(0, scalar=int), OutputSlot(1, scalar=float), OutputSlot(2, scalar=bool)],
    )
    result = exported(3, 2.5, False)
    assert result == (-3, -2.5, True) and list(map(type, result)) == [int, float, bool]
    assert exported(3, 2, False)[1] == -2.0
    for wrong in [(3.5, 2.5, False), (True, 2.5, False), (3, 2.5, 1)]:
        with pytest.raises(OnnxExporterError, match="the call gives"):
            exported(*wrong)


DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
DTYPES += ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_and_odd_shapes(name: str) -> None:
    dtype = getattr(torch, name)
    graph = model("g (float x) => (float y) { y = Identity(x) }")
    for value in (*graph.graph.inputs, *graph.graph.outputs):
        value.type, value.shape = ir.TensorType(onnx_dtype(dtype)), None
    session = Session(graph)
    for tensor in (torch.tensor(1), torch.zeros(0, 3), torch.arange(6).reshape(2, 3).t(), torch.arange(8)[::2]):
        tensor = tensor.to(dtype)
        (result,) = session.run({"x": tensor})
        assert result.dtype == dtype and result.shape == tensor.shape and result.is_contiguous()
        assert result.tolist() == tensor.tolist()


def test_results_have_memory_of_their_own() -> None:
    session = Session(model("g (float[N] x) => (float[N] x, float[2] w) <float[2] w = {1, 2}> { unused = Neg(x) }"))
    tensor = numbers(1, 2)
    for _ in range(2):
        same, weight = session.run({"x": tensor})
        assert weight.tolist() == [1, 2]
        same.zero_()
        weight.zero_()
    assert tensor.tolist() == [1, 2]


def test_sequences() -> None:
    session = Session(
        model("g (seq(float[N]) x, float[N] y) => (seq(float[N]) z, int64 n) { z = SequenceInsert(x, y) n = SequenceLength(z) }")
    )
    sequence, count = session.run({"x": [numbers(1), numbers(2, 3)], "y": numbers(4)})
    assert [tensor.tolist() for tensor in sequence] == [[1], [2, 3], [4]] and count.item() == 3


def test_inputs_need_not_be_plain_cpu_tensors() -> None:
    session = Session(model("g (float[N] x) => (float[N] y) { y = Neg(x) }"))
    for tensor in (torch.nn.Parameter(numbers(1, 2)), torch.view_as_complex(torch.ones(2, 2)).conj().imag):
        assert session.run({"x": tensor})[0].tolist() == (-tensor).tolist()
    assert session.run({"x": numbers(1, 2).numpy()})[0].tolist() == [-1, -2]


def test_weights_as_inputs() -> None:
    exported = program(ADD, lambda a: a + 2, numbers(1), feeds={"a": 0})
    with pytest.raises(OnnxExporterError, match=r"nothing is given for b \(the model's inputs: a, b\)"):
        exported(numbers(1))
    exported.weights["b"] = numbers(2)
    assert exported(numbers(1)).tolist() == [3]
    assert exported.verify().ok


def test_session_is_made_once_and_dropped_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ir.Model] = []

    class Counted(Session):
        def __init__(self, model: ir.Model, *args: Any) -> None:
            made.append(model)
            super().__init__(model, *args)

    monkeypatch.setattr("onnxexp._program.program.Session", Counted)
    exported = program(ADD, optional, numbers(1), numbers(2), feeds={"a": 0, "b": 1})
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda n: exported(numbers(n), numbers(1)).item(), range(40)))
    assert results == [n + 1 for n in range(40)] and len(made) == 1
    exported.model = model(ADD.replace("Add", "Sub"))
    assert exported(numbers(3), numbers(1)).item() == 2 and len(made) == 2


def test_large_models_go_through_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(onnxruntime_session, "_IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    session = Session(model("g (float[N] x) => (float[N] y) <float[2] w = {1, 2}> { y = Add(x, w) }"))
    assert session.run({"x": numbers(1, 1)})[0].tolist() == [2, 3]
    assert len(list(tmp_path.iterdir())) == 1
    del session
    assert not list(tmp_path.iterdir())


def failing(graph: str) -> str:
    """Return the message about a graph whose last node, `bad` in `enc.0`, fails."""
    broken = model(graph)
    bad = broken.graph[-1]
    bad.name = "bad"
    bad.metadata_props.update({"onnxexp.scope": "enc.0", "onnxexp.op": "torch::op", "onnxexp.source": "mine.py:7"})
    with pytest.raises(OnnxExporterError) as caught:
        Session(broken).run(
            {value.name: numbers(*range(index + 2)) for index, value in enumerate(broken.graph.inputs) if value.name}
        )
    return str(caught.value)


@pytest.mark.parametrize(
    ("graph", "operator"),
    [
        ("g (float[N] x, float[M] y) => (float[K] z) { z = Add(x, y) }", "Add"),
        ("g (float[N] x) => (float[N] z) { z = Nonsense(x) }", "Nonsense"),
        ("g (float[N] x) => (float[N] z) { z = MatMul(x) }", "MatMul"),
        ("g (float[N] x) => (int8[N] z) { c = Cast<to = 3>(x) z = Tan(c) }", "Tan"),
        ("g (float[N] x) => (int16[N] z) { c = Cast<to = 5>(x) z = Relu(c) }", "Relu"),
    ],
)
def test_failures_name_the_node_and_its_line(graph: str, operator: str) -> None:
    message = failing(graph)
    assert message.startswith("ONNX Runtime ") and "[ONNXRuntimeError]" not in message
    assert f"at bad ({operator}), from enc.0, torch::op, mine.py:7" in message


def test_an_opset_that_the_runtime_does_not_know() -> None:
    new = model("g (float[N] x) => (float[N] z) { z = Neg(x) }")
    new.graph.opset_imports[""] = 99
    with pytest.raises(OnnxExporterError, match=r"export with opset_version=\d+ or lower to run it here"):
        Session(new)


def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    exported = program(ADD, optional, numbers(1), numbers(2), feeds={"a": 0, "b": 1})
    with pytest.raises(OnnxExporterError, match=r"pip install onnxexp\[runtime\]"):
        exported(numbers(1), numbers(2))


def test_saving(tmp_path: Path) -> None:
    exported = program(ADD, optional, numbers(1), numbers(2), feeds={"a": 0, "b": 1})
    saved = exported.save(tmp_path / "model.onnx")
    assert saved.paths == (tmp_path / "model.onnx",)
    assert onnx.load(tmp_path / "model.onnx") == exported.model_proto
    onnx.checker.check_model(exported.model_proto, full_check=True)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    failing("g (float[N] x, float[M] y) => (float[K] z) { z = Add(x, y) }")
    exported = program(ADD, optional, numbers(1), numbers(2), feeds={"a": 0, "b": 1})
    exported.verify()
    assert capfd.readouterr() == ("", "")


def test_representation_is_short() -> None:
    exported = program(ADD, optional, numbers(1), numbers(2), feeds={"a": 0, "b": 1})
    assert repr(exported) == "<ONNXProgram (a: float32[N], b: float32[N]) -> (c: float32[N]), 1 nodes, opset 20>"
