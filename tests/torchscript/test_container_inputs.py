# ruff: noqa: UP006, UP045 - TorchScript reads this file, and not all of today's Python
"""Arguments of scripts that are lists or None, as ONNX's Sequence and Optional."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Dict, List, Optional, Tuple  # noqa: UP035 - TorchScript reads these

import onnx
import pytest
import torch
from torch import Tensor, nn

import onnxexp
from onnxexp import OnnxExporterError, OpsetError, OptionError, VerificationError
from onnxexp._cli import main

from .running import OPSETS, Program, copied, exported, programs

X, Y = torch.arange(6.0).reshape(2, 3) - 1, torch.arange(6.0).reshape(2, 3) * 2
ROW, LONG = X[1], torch.arange(15.0).reshape(5, 3)
CAUSAL = (X, torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor(True))
LAYER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
SOURCE, PADDING = torch.randn(2, 5, 8), torch.arange(5) >= torch.tensor([[3], [5]])
OPTIONALS = (15, 16, 20, 23)


def total(xs: List[Tensor], y: Tensor) -> Tuple[Tensor, int]:
    for x in xs:
        y = y + x
    return y, len(xs)


def joined(xs: List[Tensor], y: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    return torch.cat(xs), xs[0] + y, xs[-1].sum(0)


def appended_to(xs: List[Tensor], y: Tensor) -> Tensor:
    xs.append(y)
    return torch.stack(xs).sum(0)


def mapped(xs: List[Tensor], y: Tensor) -> List[Tensor]:
    return [x * i for i, x in enumerate(xs)] + [y]


def side_by_side(xs: List[Tensor], ys: List[Tensor]) -> Tensor:
    out = torch.zeros(2, 3)
    for x, y in zip(xs, ys):  # noqa: B905 - TorchScript's zip has no strict
        out = out + x * y
    return out


def longest(xs: List[Tensor]) -> Tensor:
    rows = 0
    for x in xs:
        rows = max(rows, x.size(0))
    out = torch.zeros(rows, 3)
    for x in xs:
        out[: x.size(0)] += x
    return out


def largest(xs: List[Tensor]) -> Tensor:
    best = xs[0]
    for x in xs[1:]:
        best = torch.maximum(best, x)
    return best


def handed_through(xs: List[Tensor]) -> Tuple[List[Tensor], Tensor]:
    return xs, xs[0]


@programs(
    Program(total, [X, Y], X, at=[([X], Y), ([X, Y, X], Y), ([], Y)]),
    Program(total, [X, Y], X, at=[([LONG], LONG), ([], LONG)], dynamic=[{0}, {0}], name="total-dynamic"),
    Program(joined, [X, Y], X, at=[([X], X), ([X, Y, X], Y)]),
    Program(joined, [X, Y], X, at=[([X, LONG, X], Y), ([LONG], LONG)], dynamic=[{0}, {0}], name="joined-ragged"),
    Program(appended_to, [X, Y], X, at=[([], X), ([X, Y, X], Y)]),
    Program(side_by_side, [X, Y], [Y, X], at=[([], []), ([X], [X]), ([X, Y, X], [Y])]),
    Program(longest, [X, LONG], at=[([X],), ([X[:1], LONG, X],)], name="longest-ragged-example"),
    Program(largest, [X, Y], at=[([X],), ([X, -Y, X],)], opsets=OPSETS[1:]),
    Program(handed_through, [X, Y], at=[([X],), ([X, Y, X],)]),
)
def test_a_list_of_any_length(run) -> None:
    run()


@programs(Program(mapped, [X, Y], X, at=[([], X), ([X, Y, X], Y)], opsets=OPSETS[1:]))
def test_a_list_that_a_loop_carries(run) -> None:
    run()


def added(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    if y is not None:
        x = x + y
    return x * 2


def filled(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    if y is None:
        y = torch.ones(3)
    return x + y


def returned(x: Tensor, y: Optional[Tensor]) -> Tuple[Tensor, Optional[Tensor]]:
    return x + 1, y


def carried(x: Tensor, h: Optional[Tensor] = None) -> Optional[Tensor]:
    for i in range(x.size(0)):
        if h is None:
            h = x[i]
        else:
            h = h + x[i]
    return h


def of_another_dtype(x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
    if mask is not None:  # noqa: SIM102 - TorchScript compiles `and` to a branch of its own
        if not mask.is_floating_point():
            mask = torch.zeros(3).masked_fill_(mask, -1.0)
    if mask is not None:
        x = x + mask
    return x


def passed_on(x: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None) -> Tensor:
    return torch.layer_norm(x, [3], weight, bias)


def in_a_list(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    kept: List[Optional[Tensor]] = [x]
    kept.append(y)
    last = kept[-1]
    if last is not None:
        x = x - last
    return x


def in_a_dict(x: Tensor, y: Optional[Tensor] = None) -> Dict[str, Optional[Tensor]]:
    kept: Dict[str, Optional[Tensor]] = {"x": x}
    kept["y"] = y
    return kept


def causal_if_asked(x: Tensor, mask: Optional[Tensor], flag: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, mask, is_causal=mask is None and bool(flag))


def in_a_tuple(x: Tensor, state: Tuple[Tensor, Optional[Tensor]]) -> Tensor:
    more = state[1]
    if more is not None:
        x = x * more
    return x + state[0]


def either(x: Tensor, a: Optional[Tensor], b: Optional[Tensor]) -> Tensor:
    if a is not None and b is not None:
        return x + a * b
    if a is not None:
        return x - a
    return x


def list_or_none(x: Tensor, ys: Optional[List[Tensor]] = None) -> Tensor:
    if ys is not None:
        for y in ys:
            x = x + y
    return x * 2


@programs(
    Program(added, X, Y, at=[(X, None), (X,), (Y, X)], opsets=OPTIONALS),
    Program(added, X, Y, at=[(LONG, LONG), (LONG, None)], dynamic=[{0}, {0}], opsets=OPTIONALS, name="added-dynamic"),
    Program(filled, X, ROW, at=[(LONG, None), (LONG, ROW)], dynamic=[{0}, None], opsets=OPTIONALS),
    Program(returned, X, ROW, at=[(X, None)], opsets=OPTIONALS[1:]),
    Program(carried, X, ROW, at=[(LONG, None), (X[:0], None), (X[:0], ROW)], dynamic=[{0}, None], opsets=OPTIONALS[1:]),
    Program(of_another_dtype, X, ROW > 2, at=[(X, None), (X, ROW < 2)], opsets=OPTIONALS),
    Program(LAYER, SOURCE, None, PADDING, at=[(SOURCE,), (SOURCE, None, PADDING.flip(0))], opsets=OPTIONALS),
    Program(passed_on, X, ROW, ROW, at=[(X, None, ROW), (X, ROW, None), (X, None, None)], opsets=OPTIONALS),
    Program(in_a_list, X, Y, at=[(X, None)], opsets=OPTIONALS),
    Program(in_a_dict, X, Y, at=[(X, None)], opsets=OPTIONALS[1:]),
    Program(
        causal_if_asked, *CAUSAL, at=[(X, None, CAUSAL[2]), (X, None, ~CAUSAL[2]), (X, CAUSAL[1], ~CAUSAL[2])], opsets=OPTIONALS
    ),
    Program(in_a_tuple, X, (X, Y), at=[(X, (Y, None)), (X, (Y, X))], opsets=OPTIONALS),
    Program(either, X, X, Y, at=[(X, X, None), (X, None, Y), (X, None, None)], opsets=OPTIONALS),
    Program(list_or_none, X, [Y], at=[(X, None), (X,), (X, []), (X, [X, Y, X])], opsets=OPTIONALS),
)
def test_a_tensor_or_none(run) -> None:
    run()


@pytest.mark.parametrize(("args", "opset", "inputs"), [((X, Y), 14, 2), ((X, None), 20, 1), ((X,), 20, 1)])
def test_no_optional_of_the_file(args, opset, inputs) -> None:
    program = exported(added, args, capture="script", opset_version=opset)
    assert declared(program) == ["x: float32[2, 3]", "y: float32[2, 3]"][:inputs]
    torch.testing.assert_close(program(*args), added(*args))


def declared(program: onnxexp.ONNXProgram) -> list[str]:
    return re.findall(r"^    %(.*),$", str(program).partition(") -> (")[0], re.MULTILINE)


def test_the_types_and_names_in_the_file() -> None:
    program = exported(joined, ([X, LONG], Y), capture="script", input_names=["parts", "start"])
    assert declared(program) == ["parts: sequence(float32[?, 3])", "start: float32[2, 3]"]
    assert "parts: sequence(float32[?, 3])" in repr(program)
    program = exported(list_or_none, (X, [Y]), capture="script", dynamic_axes={"x": {0: "n"}, "ys": {0: "n"}})
    assert declared(program) == ["x: float32[n, 3]", "ys: optional(sequence(float32[?, 3]))"]
    program = exported(added, (X, Y), capture="script", dynamic_shapes=({0: "n"}, {0: "n"}))
    assert declared(program) == ["x: float32[n, 3]", "y: optional(float32[n, 3])"]


def test_a_list_described_element_by_element_has_as_many_inputs() -> None:
    for described in ({"dynamic_shapes": ([None, {0: "n"}], None)}, {"dynamic_axes": {"xs.1": {0: "n"}}}):
        program = exported(joined, ([X, Y], X), capture="script", **described)
        assert declared(program) == ["xs.0: float32[2, 3]", "xs.1: float32[n, 3]", "y: float32[2, 3]"]


def test_other_frontends_flatten_a_list_and_leave_out_none() -> None:
    for capture in ("export", "trace"):
        program = exported(total, ([X, Y], X), capture=capture)
        assert declared(program) == ["xs.0: float32[2, 3]", "xs.1: float32[2, 3]", "y: float32[2, 3]"]
        assert declared(exported(added, (X, None), capture=capture)) == ["x: float32[2, 3]"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, xs: List[Tensor], scale: Optional[Tensor] = None) -> Tensor:
        found = torch.zeros(2, 3)
        for x in xs:
            found = found + self.linear(x)
        if scale is not None:
            found = found * scale
        return found


def test_the_inputs_are_those_of_torch_onnx() -> None:
    scripted, buffer = torch.jit.script(Model().eval()), io.BytesIO()
    names = ["xs", "scale"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(scripted, ([X, Y], Y), buffer, dynamo=False, opset_version=16, input_names=names)
    theirs = onnx.load_from_string(buffer.getvalue()).graph.input
    program = exported(scripted, ([X, Y], Y), opset_version=16)
    ours = program.model_proto.graph.input
    assert [(each.name, each.type) for each in ours] == [(each.name, each.type) for each in theirs]
    for call in (([X, Y, X], Y), ([X],), ([], None)):
        torch.testing.assert_close(program(*call), scripted(*copied(call)))


def test_other_lengths_are_verified() -> None:
    program = exported(total, ([X, Y], Y), capture="script")
    program.verify_sizes()
    program.eager = lambda xs, y: (sum(xs, y) if len(xs) < 4 else y, len(xs))
    program.verify()
    with pytest.raises(VerificationError, match="where xs has length 4"):
        program.verify_sizes()


def test_the_example_is_not_changed() -> None:
    given = [X.clone(), Y.clone()]
    program = exported(appended_to, (given, X), capture="script", verify=True)
    program.verify()
    assert len(given) == len(program.example[0][0]) == 2


def mixed(xs: List[Tensor]) -> Tensor:
    return xs[0].sum()


@pytest.mark.parametrize(
    ("fn", "args", "options", "error", "message"),
    [
        (mixed, ([X],), {"opset_version": 10}, OpsetError, "the input xs is a list .* there from opset 11 on"),
        (total, ([], X), {}, OptionError, "xs is empty in the example"),
        (mixed, ([X, X.long()],), {}, OptionError, "xs has tensors of torch.float32 with 2 axes and torch.int64 with 2 axes"),
        (mixed, ([X, X[0]],), {}, OptionError, "xs has tensors of torch.float32 with 1 axes and torch.float32 with 2 axes"),
        (mixed, ([X + 1j],), {}, OptionError, "xs has tensors of torch.complex64 .* have one real dtype and rank"),
        (mixed, ([X],), {"dynamic_axes": {"xs": {2: "n"}}}, OptionError, "there is no axis 2"),
        (mixed, ([X],), {"dynamic_shapes": {"xs": "n"}}, OptionError, "xs is a tensor of shape"),
    ],
)
def test_refused(fn, args, options, error, message) -> None:
    with pytest.raises(error, match=message):
        onnxexp.export(fn, args, capture="script", **options)


def test_calls_that_do_not_fit() -> None:
    program = exported(total, ([X, Y], Y), capture="script")
    with pytest.raises(OnnxExporterError, match=r"input xs is sequence\(float32\[2, 3\]\), the call gives float32\[5, 3\]"):
        program([LONG], Y)
    with pytest.raises(OnnxExporterError, match=r"input xs is sequence\(float32\[2, 3\]\), the call gives"):
        program(X, Y)
    required = exported(added, (X, Y), capture="script", opset_version=14)
    with pytest.raises(OnnxExporterError, match=r"input y is float32\[2, 3\], the call gives None"):
        required(X)


def of_two_dtypes(x: Tensor, y: Optional[Tensor] = None) -> Tensor:
    if y is not None:
        x = (x + y).to(torch.float64)
    return x


def test_a_program_that_cannot_be_read_with_none() -> None:
    with pytest.warns(UserWarning, match="an input that must be given, since the program cannot be read with both"):
        program = onnxexp.export(of_two_dtypes, (X, Y), capture="script")
    assert declared(program) == ["x: float32[2, 3]", "y: float32[2, 3]"]
    torch.testing.assert_close(program(X, X), (X * 2).double())


def test_the_command_line_verifies_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "container_model.py").write_text(
        "import torch\nfrom tests.torchscript.test_container_inputs import Model, X, Y\n"
        "def made():\n    torch.manual_seed(0)\n    return torch.jit.script(Model()), ([X, Y], Y)\n"
        "def longer():\n    torch.manual_seed(0)\n    return torch.jit.script(Model()), ([X, Y, X], None)\n",
        "utf-8",
    )
    file = str(tmp_path / "model.onnx")
    assert main(["export", f"{tmp_path}/container_model.py:made", "-o", file, "--verify"]) == 0
    for target in ("made", "longer"):
        assert main(["verify", file, "--against", f"{tmp_path}/container_model.py:{target}"]) == 0, capsys.readouterr()
