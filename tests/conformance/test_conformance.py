"""Test the first sample of each operator and dtype, and the harness itself.

The quick tier runs each fourth operator at opset 20 through torch.export, each 12th in all its dtypes; each 24th through
tracing, and each 48th with every axis dynamic. The full tier runs all of them in all dtypes through both, and at opsets 9, 13
and 23. The tests of the aten plugin have a case of every symbolic in the quick tier.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")

from onnxexp.testing._other_sizes import inputs_at, larger_sizes, sizes_of_one, symbol_values

from . import extremes, running
from .exporters import DYNAMIC
from .judging import Judge, Result
from .known import KNOWN, known
from .known_extremes import KNOWN_AT_9, KNOWN_EXTREMES
from .page import operator_page, operator_table
from .running import Runner, read_results, tasks_of
from .samples import DTYPES, Sample, dtypes_of, operators, samples
from .sizes import bordered, free_axes, misdeclared
from .tables import OTHERS, failures, rates
from .worker import in_turn

QUICK = ("float32", "int64", "bool")
OPSET = 20
FINE = ("pass", "random", "eager")
BAD = ("wrong", "invalid", "crash", "version")
QUICK_DYNAMIC = list(operators())[::48]
QUICK_TRACED = list(operators())[::24]
BORDERED = [op for op in operators() if op not in KNOWN_EXTREMES and not known(op, "trace")]
OTHER_OPSETS = (9, 13, 23)
MOST_SAMPLES = 20


def first_samples(op: str, exporter: str, dtypes: Sequence[str], opsets: Sequence[int]) -> list[Result]:
    """Judge the first sample of each dtype."""
    judges = [Judge(sample) for dtype in dtypes for sample in samples(op, dtype, 1)]
    return [judge.judge(exporter, opset) for judge in judges for opset in opsets]


def quick_dtypes(op: str) -> list[str]:
    return [dtype for dtype in dtypes_of(op) if dtype in QUICK]


def rows() -> Iterator[Any]:
    """Yield each operator, exporter and dtype, in the tiers of the module's docstring."""
    for number, op in enumerate(operators()):
        for exporter in KNOWN:
            if known(op, exporter):
                continue
            for place, dtype in enumerate(quick_dtypes(op)):
                exported = exporter == "export" and number % 4 == 0
                quick = (exported or op in QUICK_TRACED) and (place == 0 or number % 12 == 0)
                yield pytest.param(op, exporter, dtype, marks=() if quick else pytest.mark.full)


def listed(results: Sequence[Result]) -> list[str]:
    return [f"{each.dtype} at {each.opset}: {each.outcome}: {each.detail}" for each in results]


def test_no_exporter_comes_first_more_often_than_another() -> None:
    names = ["export", "trace", "script"]
    turns = [in_turn(op, names) for op in operators()]
    assert all(sorted(turn) == sorted(names) for turn in turns)
    firsts = [sum(turn[0] == name for turn in turns) for name in names]
    assert min(firsts) > 0.28 * len(turns), firsts


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "exporter", "dtype"), rows())
def test_first_sample(op: str, exporter: str, dtype: str) -> None:
    failed = [result for result in first_samples(op, exporter, [dtype], [OPSET]) if result.outcome not in FINE]
    assert not failed, "\n".join(listed(failed))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("op", "exporter"), [(op, exporter) for exporter, ops in KNOWN.items() for op in ops])
def test_a_known_failure_still_fails(op: str, exporter: str) -> None:
    """A sample fails with an error of ours; working operators leave the list."""
    for sample in (each for dtype in quick_dtypes(op) for each in samples(op, dtype, MOST_SAMPLES)):
        result = Judge(sample).judge(exporter, OPSET)
        assert result.outcome not in BAD, result.detail
        if result.outcome not in FINE:
            return
    pytest.fail(f"{op} works through {exporter} now: remove it from known.py")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", KNOWN)
@pytest.mark.parametrize("op", operators())
def test_other_opsets(op: str, exporter: str) -> None:
    """Check that a model is right, or refused with an error of ours."""
    assert not listed([result for result in first_samples(op, exporter, quick_dtypes(op), OTHER_OPSETS) if result.outcome in BAD])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", DYNAMIC)
@pytest.mark.parametrize("op", [pytest.param(op, marks=() if op in QUICK_DYNAMIC else pytest.mark.full) for op in operators()])
def test_every_axis_dynamic(op: str, exporter: str) -> None:
    """Check that a model is right at each set of sizes, or refused."""
    results = [Judge(each).judge(exporter, OPSET) for dtype in quick_dtypes(op) for each in samples(op, dtype, 1)]
    bad = [f"{result.dtype}: {result.outcome}: {result.detail}" for result in results if result.outcome in BAD]
    assert not bad, "\n".join(bad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", [pytest.param(op, marks=() if op in QUICK_DYNAMIC else pytest.mark.full) for op in BORDERED])
def test_extremes(op: str) -> None:
    """Check NaN, infinities, limits, 0-d and empty tensors in a trace."""
    chosen = [sample for dtype in extremes.dtypes_of(op) for sample in at_borders(op, dtype)]
    results = [Judge(sample).judge("trace", OPSET) for sample in chosen]
    assert not listed([result for result in results if result.outcome in BAD])


def at_borders(op: str, dtype: str) -> list[Sample]:
    return list(extremes.samples(f"{extremes.PREFIX}{op}", dtype, len(extremes.ROWS)))


def test_samples_at_the_borders() -> None:
    found = at_borders("sigmoid", "float32")
    assert [list(extremes.ROWS)[sample.index] for sample in found] == [*extremes.ROWS]
    assert found[0].tensors[0].isnan().any() and found[1].tensors[0].isinf().any()
    assert found[3].tensors[0].max() == torch.finfo(torch.float32).max
    assert found[4].tensors[0].dim() == 0 and found[5].tensors[0].numel() == 0


def test_the_judge_finds_a_difference_at_the_borders() -> None:
    """ONNX Runtime's own: the largest number beside NaN."""
    results = [Judge(sample).judge("trace", OPSET) for sample in at_borders("max.reduction_with_dim", "float32")[:1]]
    assert [result.outcome for result in results] == ["wrong"]
    page = operator_table([dataclasses.replace(each, op="max.reduction_with_dim", outcome="pass") for each in results], results)
    assert "| extremes |" in page and "| no: wrong | " + KNOWN_EXTREMES["max.reduction_with_dim"] in page


def test_known_failures_are_operators() -> None:
    assert {*KNOWN_EXTREMES, *KNOWN_AT_9} <= {*operators()}
    assert {op for ops in KNOWN.values() for op in ops} <= set(operators())


# The harness


def sample(module: torch.nn.Module, *tensors: torch.Tensor, op: str = "made up") -> Sample:
    return Sample(op, "float32", 0, module, tensors)


def outcome(module: torch.nn.Module, *tensors: torch.Tensor) -> str:
    return Judge(sample(module, *tensors)).judge("export", OPSET).outcome


class Noise(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x)


class Refused(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x)


class Broken(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("eager cannot run it either")


class Half(torch.nn.Module):
    """A model that overflows in eager's float16, not in ONNX Runtime's float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.soft_margin_loss(-x, x)


class Other(torch.nn.Module):
    """A model that computes something else while it is exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_exporting() else x


@pytest.mark.parametrize(
    ("module", "expected"),
    [(torch.nn.ReLU(), "pass"), (Noise(), "random"), (Refused(), "unsupported"), (Broken(), "eager"), (Other(), "wrong")],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_outcomes(module: torch.nn.Module, expected: str) -> None:
    assert outcome(module, torch.randn(3, 3)) == expected


class FixedAtExport(torch.nn.Module):
    """A model that fixes a size while it is exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (3 if torch.compiler.is_exporting() or torch.jit.is_tracing() else x.shape[0])


class Halves(torch.nn.Module):
    """A model that accepts even sizes only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, x.shape[0] // 2)


class OneIsAnother(torch.nn.Module):
    """A model that is something else at size 1, unless it is exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return -x if not (torch.compiler.is_exporting() or torch.jit.is_tracing()) and x.shape[0] == 1 else x + 0


class Fixed(torch.nn.Module):
    """A model that accepts one size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(2, 3)


@pytest.mark.parametrize("exporter", DYNAMIC)
@pytest.mark.parametrize(
    ("module", "shape", "expected"),
    [
        (torch.nn.ReLU(), (3, 4), ("pass", "larger and 1")),
        (torch.nn.ReLU(), (), ("pass", "single")),
        (Noise(), (3, 4), ("random", "larger and 1")),
        (FixedAtExport(), (3, 4), ("wrong", "larger and 1")),
        (Halves(), (6,), ("pass", "larger")),
        (OneIsAnother(), (6,), ("wrong", "larger and 1")),
        (Fixed(), (6,), ("pass", "fixed")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.nn.Module) else None,
)
def test_other_sizes(module: torch.nn.Module, shape: tuple[int, ...], expected: tuple[str, str], exporter: str) -> None:
    result = Judge(sample(module, torch.randn(shape))).judge(exporter, OPSET)
    assert (result.outcome, result.others) == expected


def declared(sizes: list[int | str]) -> onnx.ModelProto:
    x = onnx.helper.make_tensor_value_info("input_0", onnx.TensorProto.FLOAT, ["n", "2*n"])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, sizes)
    return onnx.helper.make_model(onnx.helper.make_graph([], "g", [x], [y]))


def test_what_is_named_alike_has_one_size() -> None:
    x = torch.arange(18.0).reshape(3, 6)
    model = declared([1])
    assert symbol_values(model, {"input_0": x}) == {"n": 3}
    assert inputs_at(model, {"input_0": x}, {"n": 4})["input_0"].shape == (4, 8)


def test_larger_sizes() -> None:
    found = list(larger_sizes({"a": 3, "b": 3, "c": 2}))
    assert found[0] == {"a": 4, "b": 5, "c": 3}
    assert found[1:3] == [{"a": 4, "b": 4, "c": 3}, {"a": 6, "b": 6, "c": 4}]
    assert {"a": 4, "b": 4, "c": 2} in found and {"a": 3, "b": 3, "c": 4} in found and {"a": 4, "b": 3, "c": 2} in found
    assert list(larger_sizes({})) == []


@pytest.mark.parametrize(
    ("accepts", "expected"),
    [
        (lambda sizes: True, {"a": 1, "b": 1, "c": 1}),
        (lambda sizes: sizes["a"] == sizes["b"] and sizes["c"] == 2, {"a": 1, "b": 1, "c": 2}),
        (lambda sizes: sizes["a"] == 3, {"a": 3, "b": 1, "c": 1}),
        (lambda sizes: False, None),
    ],
)
def test_sizes_of_one(accepts: Any, expected: Any) -> None:
    assert sizes_of_one({"a": 3, "b": 3, "c": 2}, accepts) == expected


def test_bordered() -> None:
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    assert bordered(x, [3, 3]).tolist() == [[2, 1, 0], [1, 3, 0], [0, 0, 1]]
    assert bordered(x, [1, 3]).tolist() == [[2, 1, 0]]
    assert bordered(x.expand(2, 2, 2), [3, 1, 1]).tolist() == [[[2.0]]] * 3
    assert bordered(torch.tensor([2, 2], dtype=torch.int32), [1]).tolist() == [1]


def test_free_axes() -> None:
    """Equal axes change together; sizes in a constant shape stay."""

    def accepts(tensors: list[torch.Tensor]) -> bool:
        return tensors[0].shape[1] == tensors[1].shape[0] and tensors[1].shape[1] == 3

    assert free_axes([torch.ones(2, 3), torch.ones(3, 3)], accepts) == [[0, 1], [0]]


@pytest.mark.parametrize(
    ("sizes", "right"), [(["n", "2*n"], True), (["k", 8], True), ([3, "2*n"], False), (["n", "n + 1"], False)]
)
def test_declared_sizes(sizes: list[int | str], right: bool) -> None:
    assert (misdeclared(declared(sizes), {"n": 4}, [torch.zeros(4, 8)]) == "") is right


def test_halves_are_compared_with_doubles_too() -> None:
    large = torch.full((3,), 5.0, dtype=torch.float16)
    assert not Half()(large).isfinite()
    assert outcome(Half(), large) == "pass"
    assert outcome(Other(), large) == "wrong"


def test_samples_are_the_same_every_time() -> None:
    first, second = (next(samples("add", "float32", 1)) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first.tensors, second.tensors, strict=True))
    assert {*dtypes_of("sin")} == set(DTYPES)


RESULTS = [
    Result("sin", "float32", 0, 20, "export", "pass", seconds=0.01),
    Result("sin", "float32", 1, 20, "export", "wrong", "off"),
    Result("rand", "float32", 0, 20, "export", "random"),
    Result("sin", "float32", 0, 9, "export", "eager"),
]


def test_tables() -> None:
    lines = rates(RESULTS).splitlines()
    assert any("20 float32" in line and "50.0 %" in line for line in lines)
    assert "wrong" in failures(RESULTS)


def test_seconds_against_a_peer_s() -> None:
    """Check the ratios: the peer's third sample is missing; our second one fails."""
    peer = [Result("sin", "float32", index, 20, "dynamo", "pass", seconds=0.4) for index in range(3)]
    text = rates([*RESULTS, *peer])
    assert "export ÷ dynamo, opset 20, float32: 0.01 s ÷ 0.80 s = 0.012 (at most 0.1) over 2 samples" in text
    assert "export ÷ dynamo, opset 20, float32, where both pass: 0.01 s ÷ 0.40 s = 0.025 (at most 0.1) over 1 samples" in text
    assert "÷" not in rates(RESULTS)


MIXED = [
    *RESULTS[:3],
    *(Result("cos", dtype, 0, opset, "export", "pass") for dtype in ("float32", "bool") for opset in (13, 17, 20)),
    Result("cos", "float32", 0, 9, "export", "pass"),
    Result("cos", "bool", 0, 9, "export", "opset", 'OpsetError: not: aten::cos (2x): opset 13 can at File "x.py"'),
    Result("cos", "float32", 0, 20, "trace", "capture", "CaptureError: not this | way"),
    Result("cos", "float32", 0, 20, "dynamo", "version"),
]


def test_operator_table() -> None:
    lines = operator_table(MIXED).splitlines()
    assert lines[0] == "| operator | dtypes | export (9–20) | trace (20) | why not |"
    assert "| cos | f32 bool | 9: 1/2 opset (bool); 13–20: yes | no: capture | opset 13 can |" in lines
    assert "| rand | f32 | yes |  |  |" in lines
    assert "| sin | f32 | 1/2 wrong |  | off |" in lines


def test_operator_page() -> None:
    page = operator_page(MIXED)
    assert "| export | 20 | 4 | 75.0 % | 1 |" in page
    assert "| dynamo | 20 | 1 | 0.0 % |" in page
    assert "| elementwise, one input | 2 | 50.0–100.0 % | 0.0 % |" in page


def test_other_sizes_on_the_page() -> None:
    results = [
        dataclasses.replace(RESULTS[0], sample=index, exporter="dynamic", others=found) for index, found in enumerate(OTHERS)
    ]
    page = operator_page([*RESULTS, *results, dataclasses.replace(results[0], sample=9)])
    assert "| dynamic | 20 | 2 | 1 | 1 | 1 | 1 | 1 | 1 |" in page
    assert "At other sizes" not in operator_page(RESULTS)


def test_results_of_a_run_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    lines = [json.dumps(dataclasses.asdict(result)) for result in RESULTS]
    path.write_text("\n".join([*lines, lines[0][:20]]), "utf-8")
    assert read_results(path) == RESULTS


class DyingWorker:
    """A worker whose first life ends at the first sample."""

    lives = 0

    def __init__(self) -> None:
        type(self).lives += 1
        self.tasks = 0
        self.dies = type(self).lives == 1
        self.messages: list[dict] = []

    def send(self, task) -> None:
        begin = [{"begin": ["sin", "float32", index, 20, "export"]} for index in range(2)]
        done = [dataclasses.asdict(Result("sin", "float32", index, 20, "export", "pass")) for index in range(2)]
        everything = [message for pair in zip(begin, done, strict=True) for message in pair]
        left = everything[2:] if any("|0|" in key for key in task.done) else everything
        self.messages = [*left, {"end": True}]

    def receive(self, seconds: float) -> dict:
        message = self.messages.pop(0)
        if self.dies and "begin" not in message:
            raise EOFError("the process died with status -11")
        return message

    def end(self) -> None:
        pass


def test_a_crash_costs_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_Worker", DyingWorker)
    out = io.StringIO()
    Runner(out, jobs=1, limit=1).run(tasks_of([("sin", "float32")], 2, [20], ["export"], set()))
    found = [(json.loads(line)["sample"], json.loads(line)["outcome"]) for line in out.getvalue().splitlines()]
    assert found == [(0, "crash"), (1, "pass")]
