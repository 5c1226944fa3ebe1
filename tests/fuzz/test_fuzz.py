"""Test a fixed set of random programs, and the fuzzer itself."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch.nn import functional

from . import generator, judging
from .__main__ import main
from .comparing import compared, is_rounding
from .exporters import Exported, exported
from .generator import generate, other_sizes
from .judging import FAILURES, Result, cause_of, judge
from .minimising import minimised, operators_of
from .processes import Ended, in_child
from .program import Input, Program, Statement
from .report import one_sided, read_results, report, text_of
from .running import run_model
from .scope import Scope, Unfit

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 60
KNOWN: dict[int, str] = {}
"""The seeds of the fixed set that fail, with the reason."""
ONE_SIDED: dict[tuple[int, str], str] = {}
"""The seeds and frontends that refuse what the other takes, with the reason."""


def fuzz(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer in its own process; a fork would wait for other tests' threads."""
    command = [sys.executable, "-m", "tests.fuzz", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False)


@pytest.mark.full
def test_programs(tmp_path: Path) -> None:
    """Check that each program is right, or refused with an error of ours."""
    path = tmp_path / "results.jsonl"
    done = fuzz("--seed", 0, "--count", SEEDS, "--out", path)
    results = read_results(path)
    assert len(results) == SEEDS, done.stderr
    failed = {result.seed for result in results if result.outcome in FAILURES}
    assert failed - KNOWN.keys() == set(), done.stdout
    assert KNOWN.keys() - failed == set(), "these work now: remove them from the list"


@pytest.mark.full
def test_frontends_take_the_same_programs(tmp_path: Path) -> None:
    """Compare both frontends on the same programs; `--differences` prints the causes."""
    for frontend in ("export", "trace"):
        fuzz("--seed", 500_000, "--count", SEEDS, "--opset", 20, "--frontend", frontend, "--out", tmp_path / frontend)
    results = [result for frontend in ("export", "trace") for result in read_results(tmp_path / frontend)]
    assert len(results) == 2 * SEEDS
    found = {(result.seed, result.frontend): result.detail for result in one_sided(results)}
    assert {key: found[key] for key in found.keys() - ONE_SIDED.keys()} == {}
    assert ONE_SIDED.keys() - found.keys() == set(), "these agree now: remove them from the list"


def test_differences_of_frontends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def result(seed: int, frontend: str, outcome: str) -> Result:
        return Result(seed, "onnxexp", frontend, 20, outcome, "CaptureError: no size" if outcome == "refused" else "")

    outcomes = {
        1: ("pass", "refused"),
        2: ("refused", "refused"),
        3: ("pass", "rounding"),
        4: ("fixed", "pass"),
        5: ("error", "pass"),
    }
    for place, frontend in enumerate(("export", "trace")):
        lines = (text_of(result(seed, frontend, pair[place])) for seed, pair in outcomes.items())
        (tmp_path / frontend).write_text("".join(lines))
    assert main(["--differences", str(tmp_path / "export"), str(tmp_path / "trace")]) == 0
    told = capsys.readouterr().out
    assert "2 of 5 programs (40.0 %) are right through one frontend only" in told
    assert "only export refuses: 1 programs" in told and "(seed 5)" in told
    assert "1x refused: CaptureError: no size (seed 1)" in told


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the files of the programs where pytest removes them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


# Programs


def program(*texts: str, outputs: tuple[str, ...] = ("v1",), **changes: object) -> Program:
    """Return a program with one input of three by four."""
    given = Input("x0", (3, 4), "float32", "normal", 1)
    made = Program(0, (given,), tuple(Statement(text) for text in texts), outputs)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_programs_are_the_same_every_time() -> None:
    assert [generate(seed) for seed in range(5)] == [generate(seed) for seed in range(5)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(200, 230))
def test_programs_run_in_eager(seed: int) -> None:
    made = generate(seed)
    ast.parse(made.reproduction)
    assert len(made.statements) in range(1, 26)
    assert made.opset in range(9, 27)
    assert judging.load(made)().eval()(*made.tensors()) is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "family", sorted(generator._FAMILIES, key=lambda family: family.__name__), ids=lambda family: family.__name__
)
def test_every_family_writes_statements_that_eager_accepts(family: Callable[[Scope], str]) -> None:
    """A family whose statements eager refuses would silently add no statement."""
    accepted = 0
    for seed in range(20):
        writer = generator._Writer(random.Random(seed), "export", 20, seed)
        writer.scope.values["v0"] = writer.names["v0"] = torch.rand(2, 4, 6) + 0.5
        writer.scope.values["v00"] = writer.names["v00"] = torch.rand(4, 4, dtype=torch.complex64)
        with contextlib.suppress(Unfit):
            text = family(writer.scope)
            compiled = compile("\n".join([*writer.scope.setup, text]), family.__name__, "exec")
            with contextlib.suppress(Exception), torch.no_grad():  # eager may refuse a random statement by any exception
                exec(compiled, writer.names)
                accepted += 1
    assert accepted >= 4


def test_an_input_that_is_another_one() -> None:
    given = Input("x0", (3, 4), "float32", "normal", 1)
    other = dataclasses.replace(given, name="x1", same_as="x0")
    made = program("v1 = x0 + x1", inputs=(given, other), axes={"x0": {0: "n"}, "x1": {0: "n"}})
    one, two = made.tensors({"n": 5})
    assert one is two and one.shape == (5, 4)
    assert "args = ((x0 := torch.randn((3, 4)" in made.reproduction and ", x0,)" in made.reproduction
    assert judge(made).outcome == "pass"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", ["v1 = torch.fft.fft(x0)", "v1 = x0.to(torch.bfloat16) * 2"])
def test_results_that_numpy_or_onnx_lacks(text: str) -> None:
    """Complex numbers are pairs of reals; bfloat16 is read from the runtime's memory."""
    assert judge(program(text, axes={"x0": {0: "n"}})).outcome == "pass"
    assert judge(program(text.replace("x0", "(x0 + torch.compiler.is_exporting())"))).outcome == "wrong value"


def test_generated_axes_change() -> None:
    made = next(each for each in map(generate, range(100)) if each.sizes)
    grown = {name: size + 1 for name, size in made.sizes.items()}
    assert [x.shape for x in made.tensors(grown)] != [x.shape for x in made.tensors()]
    modern, old = (dataclasses.replace(made, opset=opset) for opset in (14, 13))
    assert {min(sizes.values()) for sizes in other_sizes(modern)} >= {0, 1}
    assert 0 not in {min(sizes.values()) for sizes in other_sizes(old)}


# Outcomes


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("frontend", ["export", "trace", "script"])
def test_a_right_program_passes(frontend: str) -> None:
    axes = {"x0": {0: "n", 1: "m"}}
    assert judge(program("v1 = x0.relu() + x0.shape[0]", frontend=frontend, axes=axes)).outcome == "pass"


BRANCH = "if x0.shape[0] > 2:\n    v1 = x0 + 1\nelse:\n    v1 = x0 - 1"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("text", "changes", "outcome"),
    [
        ("v1 = torch.linalg.eigvals(x0 @ x0.mT).abs()", {}, "refused"),
        ("v1 = x0.median(0)[0]", {"opset": 9, "axes": {"x0": {0: "n"}}}, "opset"),
        ("v1 = x0.no_such_method()", {}, "eager"),
        ("v1 = x0 + torch.ones(3, 4)", {"axes": {"x0": {1: "n"}}}, "fixed"),
        ("v1 = x0 + (1 if torch.compiler.is_exporting() else 0)", {}, "wrong value"),
        ("v1 = x0[: 2 if torch.compiler.is_exporting() else 3]", {}, "wrong shape"),
        ("v1 = x0.double() if torch.compiler.is_exporting() else x0", {}, "wrong dtype"),
        (BRANCH, {"axes": {"x0": {0: "n"}}}, "warned"),
    ],
)
def test_outcomes(text: str, changes: dict[str, object], outcome: str) -> None:
    result = judge(program(text, **changes))
    assert result.outcome == outcome, result.detail


def test_a_kernel_that_ends_the_process_at_a_size_of_0(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(model: onnx.ModelProto, inputs: dict[str, torch.Tensor], *, optimised: bool = True) -> list[torch.Tensor]:
        if any(0 in x.shape for x in inputs.values()):
            os.kill(os.getpid(), signal.SIGSEGV)
        return run_model(model, inputs, optimised=optimised)

    monkeypatch.setattr(judging, "run_model", run)
    result = judge(program("v1 = x0 + 1", axes={"x0": {0: "n"}}))
    assert (result.outcome, result.sizes) == ("runtime", "{'n': 0}") and result.detail.startswith("crash: SIGSEGV")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("text", "outcome"), [("v1 = x0 * float(x0.shape[0])", "warned"), ("v1 = x0 * x0.shape[0]", "wrong value")]
)
def test_a_warning_of_constants_excuses_what_torchs_trace_has_wrong_too(
    text: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that multiplies by the example's size stands for each program's export."""
    fixed = program("v1 = x0 * 3.0", axes={"x0": {0: "n"}})
    found = exported("onnxexp", fixed, judging.load(fixed)(), fixed.tensors())
    stated = "Tracing fixes the branches that the example inputs took, and the Python numbers computed from them:"
    monkeypatch.setattr(judging, "exported", lambda *_: dataclasses.replace(found, messages=[stated], call=None))
    result = judge(program(text, axes={"x0": {0: "n"}}))
    assert (result.outcome, result.sizes) == (outcome, "{'n': 4}"), result.detail


def test_a_changed_state_is_found() -> None:
    """An export restores the attributes of modules, and nested lists up to depth four."""
    text = "if torch.compiler.is_exporting():\n    self.notes[0][0][0][0].append(1)\nv1 = x0 + 1"
    result = judge(program(statements=(Statement(text, ("self.notes = [[[[[]]]]]",)),)))
    assert result.outcome == "state", result.detail


def test_stated_ranges() -> None:
    places = 'n > 2 (File "a.py", line 3: if f(x) > 2:); m <= n (File "b.py", line 1: g())'
    message = f"the exported model is right only where {places}. Other sizes take another branch"
    exported = Exported(None, [message])  # type: ignore[arg-type]
    assert [exported.is_limited({"n": n, "m": 3}, ()) for n in (2, 3, 4)] == [True, False, False]
    assert exported.is_limited({"n": 4, "m": 5}, ())


def test_integers_times_a_float_are_exact_in_float64() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 0.1 + 1e7) - 1e7

    x = torch.tensor([3])
    assert is_rounding(Scaled, [x], Scaled()(x), torch.tensor([0.3]), 0)
    assert torch.get_default_dtype() == torch.float32


def test_a_shape_that_rounding_decides() -> None:
    class Distinct(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.unique(x.round())

    one = torch.tensor([1.0])
    for first, expected in ((0.5, True), (0.2, False)):
        x = torch.tensor([first, 1.0])
        assert is_rounding(Distinct, [x], Distinct()(x), one, 0) == expected


def test_a_decision_between_equal_results() -> None:
    class Middle(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            middle = functional.interpolate(x, size=5, mode="linear")  # the middle one of nine, exactly
            return torch.where(x.amax(-1, keepdim=True) > middle, x.amax(-1, keepdim=True), 0)

    x = torch.tensor([[[0.1, 0.2, 0.3, 0.4, 0.9, 0.4, 0.3, 0.2, 0.1]]])
    expected = Middle()(x)
    assert expected[0, 0, 2] == 0
    assert is_rounding(Middle, [x], expected, torch.full((1, 1, 5), 0.9), 0)
    assert not is_rounding(Middle, [x], expected, torch.zeros(1, 1, 5), 0)


@pytest.mark.filterwarnings("ignore")
def test_a_layer_that_accepts_one_size() -> None:
    layer = Statement("v1 = self.m(x0)", ("self.m = torch.nn.BatchNorm1d(4)",))
    result = judge(program(statements=(layer,), frontend="trace", axes={"x0": {1: "n"}}))
    assert result.outcome == "fixed", result.detail


def test_comparison() -> None:
    one = torch.tensor([1.0, float("nan")])
    assert compared([one], [one.clone()]) is None
    assert [compared([one], [other]) is not None for other in (one[:1], one.double(), one + 1)] == [True] * 3
    assert (compared([one], []) or ("",))[0] == "wrong outputs"


class Cancelling(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1e7) - 1e7


class Undefined(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / 0 * 0


def test_rounding_is_no_wrong_value() -> None:
    x = torch.tensor([0.3])
    expected = Cancelling()(x)
    assert is_rounding(Cancelling, [x], expected, torch.tensor([0.3]), 0)
    assert not is_rounding(torch.nn.ReLU, [x], x, torch.tensor([0.4]), 0)
    assert not is_rounding(Undefined, [x], Undefined()(x), x, 0)
    near = torch.tensor([1.0, -0.03], dtype=torch.bfloat16)
    assert [is_rounding(torch.nn.Identity, [near], near, near - step, 0) for step in (1 / 128, 1 / 8)] == [True, False]


# Processes


def loop_forever() -> None:
    while True:
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("function", "outcome"),
    [(lambda: os.kill(os.getpid(), signal.SIGSEGV), "crash"), (loop_forever, "hang"), (lambda: 1 // 0, "error")],
    ids=["crash", "hang", "error"],
)
def test_the_end_of_a_child_is_a_result(function: object, outcome: str) -> None:
    with pytest.raises(Ended) as caught:
        in_child(function, 2.0)  # type: ignore[arg-type]
    assert caught.value.outcome == outcome


def test_a_child_returns_its_result() -> None:
    assert in_child(lambda: [1] * 100_000, 20.0) == [1] * 100_000


# Minimising and reports


def fails_with(operator: str, made: Program) -> Result:
    outcome = "wrong value" if operator in made.source else "pass"
    return Result(0, "onnxexp", "export", 20, outcome, source=made.reproduction, statements=len(made.statements))


def test_minimised() -> None:
    texts = ("v1 = x0 + 1", "v2 = v1.tanh()", "v3 = x0 * 2\nv3.add_(1)", "v4 = v2 + v3", "v5 = v4.sum()")
    made = program(*texts, outputs=("v5", "v1"), form="dict", axes={"x0": {0: "n"}})
    run = functools.partial(fails_with, "tanh")
    smallest = minimised(made, run(made), run)
    parts = program("v1, v2 = x0.chunk(2)", "v3 = v2.tanh()", outputs=("v3",))
    assert "v2 = x0.chunk(2)" in minimised(parts, run(parts), lambda each: fails_with("chunk", each)).source
    assert (smallest.statements, smallest.operators) == (1, "tanh")
    assert "dynamic_shapes" not in smallest.source and "v2 = x0.tanh()" in smallest.source


def test_operators() -> None:
    assert operators_of(program("v1 = x0[1:].clone()\nv1[0] += 1", "v2 = v1 * v1.shape[0]")) == "Add= Mult [] []= clone"


def test_causes() -> None:
    messages = [
        f'LoweringError: %add_{n} has {n} axes at File "/a/{n}.py", line {n}: y{n} = f(x)\nto fix this, {n}' for n in (1, 2)
    ]
    assert len({cause_of(message, f"    y{n} = f(x)") for n, message in enumerate(messages, 1)}) == 1


RESULTS = [
    Result(0, "onnxexp", "export", 20, "pass"),
    Result(1, "onnxexp", "trace", 20, "wrong value", "off", operators="sin", source="        v1 = x0.sin()"),
    Result(2, "onnxexp", "trace", 9, "opset", "first in 17"),
    Result(0, "dynamo", "export", 20, "refused"),
]


def test_report() -> None:
    text = report(RESULTS)
    assert "onnxexp: 3 programs, 1 pass (50.0 %), 0 refused (0.0 %), 1 wrong value, 1 opset" in text
    assert "1x wrong value: sin (seed 1)" in text and "| v1 = x0.sin()" in text
    assert "dynamo: 1 programs, 0 pass (0.0 %), 1 refused (100.0 %)" in text


def test_results_of_a_run_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("".join(map(text_of, [*RESULTS, RESULTS[0]])) + text_of(RESULTS[0])[:20], "utf-8")
    assert sorted(read_results(path), key=str) == sorted(RESULTS, key=str)


@pytest.mark.full
def test_a_run_is_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.jsonl"
    for count in (2, 4):
        done = fuzz("--seed", 300, "--count", count, "--out", path)
        assert "2 programs in" in done.stderr
    assert [result.seed for result in read_results(path)] == [300, 301, 302, 303]
    assert main(["--out", str(path), "--report"]) in (0, 1)
    assert "onnxexp: 4 programs" in capsys.readouterr().out
