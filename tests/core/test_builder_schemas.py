"""Every ONNX operator at every opset: valid if built, else the right opset named.

Each call of `tests.core.operator_calls` is made at every opset, with every dtype of any version of the operator. It must pass
onnx's checker with strict shape inference, or raise OpsetError whose `first_opset` is the next opset that builds it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxexp import Builder, LoweringError, OpsetError, Tensor
from onnxexp._builder.builder import state_of
from onnxexp._builder.dtypes import type_string
from onnxexp._builder.onnx_schemas import history
from onnxexp._lowering.assemble import assemble
from onnxexp._neutral_graph import TensorType
from onnxexp._serialize import to_proto
from onnxexp._version import MAX_OPSET, MIN_OPSET
from tests.core.operator_calls import CALLS, Dtype, OpCall, S
from tests.core.operator_programs import PROGRAMS

NAMES = sorted({schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain})
QUICK = {9, 13, 18, 23, 28}

DTYPES = {
    type_string(dtype): dtype
    for dtype in (
        torch.float32,
        torch.int64,
        torch.bool,
        torch.int32,
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.complex64,
        torch.complex128,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2fnuz,
        torch.float8_e8m0fnu,
    )
}
"""The dtypes by the names that schemas use; a type variable starts with the first that it takes."""


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One call with one choice of dtypes."""

    name: str
    given: OpCall | Callable[[Builder], Any]
    dtypes: tuple[tuple[str, torch.dtype], ...] = ()

    def run(self, op: Builder) -> Any:
        if not isinstance(self.given, OpCall):
            return self.given(op)
        fill = functools.partial(_argument, op, dict(self.dtypes))
        spec = history("", self.name)[-1]
        variables = {formal.name: formal.variable for formal in spec.inputs}
        given = dict(self.given.given)
        for formal in spec.inputs:
            if not (formal.optional or formal.variadic):
                given.setdefault(formal.name, S(2, 3))
        keywords = {key: fill(key, variables.get(key, ""), value) for key, value in given.items()}
        inputs = [fill(f"x{index}", spec.inputs[0].variable, value) for index, value in enumerate(self.given.inputs)]
        return op.call("", self.name, *inputs, outputs=self.given.outputs, **keywords)

    def __str__(self) -> str:
        call = self.given if not isinstance(self.given, OpCall) else {**self.given.given, "inputs": self.given.inputs}
        return f"{self.name} {call} {dict(self.dtypes)}"


def _argument(op: Builder, dtypes: Mapping[str, torch.dtype], name: str, variable: str, value: Any) -> Any:
    if isinstance(value, Dtype):
        return dtypes[value.variable]
    if isinstance(value, S):
        dtype = dtypes.get(variable) or DTYPES[variable]
        return op.input(name, TensorType(dtype, tuple(value)))
    if isinstance(value, list):
        return [_argument(op, {"": torch.int64}, name, "", element) for element in value]
    return value


def _choices(name: str, call: OpCall) -> Iterator[tuple[tuple[str, torch.dtype], ...]]:
    """Vary each type variable through all dtypes of any version, one at a time."""
    newest = history("", name)[-1]
    variables: dict[str, list[torch.dtype]] = {}
    taken = {formal.variable for formal in newest.inputs}
    results = [formal for formal in newest.outputs if formal.variable not in taken]
    for version in reversed(history("", name)):
        for formals, own in ((newest.inputs, version.inputs), (results, version.outputs)):
            for formal, other in itertools.product(formals, own):
                if formal.name == other.name and not formal.variable.startswith(("tensor(", "seq(", "optional(")):
                    known = variables.setdefault(formal.variable, [])
                    known += [dtype for text, dtype in DTYPES.items() if text in other.types and dtype not in known]
    variables = {variable: dtypes for variable, dtypes in variables.items() if dtypes and variable not in call.ties}
    usual = {
        variable: call.pins.get(variable, next(dtype for dtype in DTYPES.values() if dtype in dtypes))
        for variable, dtypes in variables.items()
    }
    yielded = set()
    for variable, dtypes in variables.items():
        for dtype in dtypes if variable not in call.pins else [usual[variable]]:
            chosen = {**usual, variable: dtype}
            chosen |= {tied: chosen[to] for tied, to in call.ties.items()}
            choice = tuple(sorted(chosen.items(), key=lambda pair: pair[0]))
            if choice not in yielded and (call.only is None or dtype in call.only):
                yielded.add(choice)
                yield choice
    if not variables:
        yield ()


def _is_known(name: str, call: OpCall) -> bool:
    """Return whether the installed onnx, which may be old, has a call's arguments."""
    versions = history("", name)
    formals = [formal for version in versions for formal in (*version.inputs, *version.outputs)]
    names = {*(formal.name for formal in formals), *(attribute for version in versions for attribute in version.attributes)}
    variables = {value.variable for value in call.given.values() if isinstance(value, Dtype)}
    return names.issuperset(call.given) and variables <= {formal.variable for formal in formals}


def attempts(name: str) -> list[Attempt]:
    if name in PROGRAMS:
        return [Attempt(name, program) for program in PROGRAMS[name]]
    calls = [call for call in CALLS.get(name, [OpCall({})]) if _is_known(name, call)]
    return [Attempt(name, call, dtypes) for call in calls for dtypes in _choices(name, call)]


def build(attempt: Attempt, opset: int) -> onnx.ModelProto:
    op = Builder(opset, fold=False)
    results = attempt.run(op)
    tensors = [results] if isinstance(results, Tensor) else list(results)
    outputs = [op.Shape(tensor) if tensor.shape is None and tensor.known_dtype else tensor for tensor in tensors]
    return to_proto(assemble(op, [(f"y{index}", tensor) for index, tensor in enumerate(outputs)]))


class Built:
    """The outcome of a call that is built and valid."""


def outcome(attempt: Attempt, opset: int) -> type[Built] | int | None:
    """Return `Built`, or the opset that the refusal names."""
    try:
        model = build(attempt, opset)
    except OpsetError as error:
        if f"opset {opset}" not in str(error):
            raise AssertionError("the message does not tell the target opset") from error
        return error.first_opset
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == opset
    onnx.checker.check_model(model, full_check=True)
    return Built


remembered = functools.lru_cache(maxsize=None)(outcome)


def check(attempt: Attempt, opset: int) -> bool:
    """Return whether the attempt is built; raise AssertionError for invalid models."""
    try:
        said = outcome(attempt, opset)
        if said is Built:
            return True
        if isinstance(attempt.given, OpCall):
            last = said if isinstance(said, int) else MAX_OPSET
            works = [later for later in range(opset + 1, last + 1) if remembered(attempt, later) is Built]
            assert works == ([said] if said else []), f"it says opset {said}, of the later ones work {works}"
        while isinstance(said, int):  # of several calls the first that is refused says its own opset
            opset, said = said, remembered(attempt, said)
            assert not isinstance(said, int) or said > opset
    except Exception as error:
        raise AssertionError(f"{attempt} at opset {opset}: {type(error).__name__}: {error}") from error
    return False


BUILT = {
    9: 1631, 10: 1810, 11: 2151, 12: 2518, 13: 2759, 14: 2865, 15: 2976, 16: 3083, 17: 3234, 18: 3605, 19: 3782, 20: 3857,
    21: 3984, 22: 4116, 23: 4266, 24: 4432, 25: 4451, 26: 4472, 27: 4492, 28: 4483,
}  # fmt: skip
"""How many of the 4574 calls each opset expresses, at least: fewer would mean that calls are refused that need not be."""

opsets = pytest.mark.parametrize(
    "opset", [pytest.param(opset, marks=() if opset in QUICK else pytest.mark.full) for opset in BUILT]
)


@opsets
def test_what_is_built_is_valid_and_what_is_not_names_the_opset(opset: int) -> None:
    wrong: list[str] = []
    built: dict[str, int] = {}
    total = 0
    for name in NAMES:
        for attempt in attempts(name):
            total += 1
            try:
                built[name] = built.get(name, 0) + check(attempt, opset)
            except AssertionError as error:
                wrong.append(str(error))
    calls = sum(built.values())
    print(f"opset {opset}: {sum(map(bool, built.values()))} of {len(built)} operators, {calls} of {total} calls built")
    assert not wrong, f"{len(wrong)} of {total} calls:\n" + "\n".join(wrong)
    assert calls >= BUILT[opset]


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < MAX_OPSET, reason="older releases of onnx mark fewer operators")
def test_what_onnx_marks_as_not_deterministic_is_not_merged() -> None:
    random = onnx.defs.OpSchema.NodeDeterminism.NonDeterministic
    newest = {name: history("", name)[-1] for name in NAMES}
    marked = {name for name, operator in newest.items() if operator.schema.node_determinism == random}
    # AffineGrid is marked for its If, whose branches compute the same each time.
    assert {name for name, operator in newest.items() if not operator.deterministic} == marked - {"AffineGrid"}


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < MAX_OPSET, reason="the installed onnx lacks operators and arguments")
def test_the_matrix_is_the_one_promised() -> None:
    assert list(BUILT) == list(range(MIN_OPSET, MAX_OPSET + 1))
    assert sum(len(attempts(name)) for name in NAMES) == 4574
    unknown = {*CALLS, *PROGRAMS} - set(NAMES)
    assert not unknown
    assert not {*CALLS} & {*PROGRAMS}


def test_every_input_and_attribute_is_given_by_some_call() -> None:
    exempt = {"Constant.sparse_value", "TfIdfVectorizer.pool_strings", "ConvInteger.auto_pad", "QLinearConv.auto_pad"}
    never = set()
    for name in set(NAMES) - set(PROGRAMS):
        newest = history("", name)[-1]
        given = set().union(*(call.given for call in CALLS.get(name, ())))
        wanted = {formal.name for formal in newest.inputs if formal.optional} | set(newest.attributes)
        never |= {f"{name}.{argument}" for argument in wanted - given}
    assert never == exempt


def test_an_attribute_at_its_default_is_as_if_it_were_left_out() -> None:
    changed = set()
    for name in set(NAMES) - set(PROGRAMS):
        newest = history("", name)[-1]
        base = next(call for call in CALLS.get(name, [OpCall({})]))
        for attribute in newest.attributes.values():
            if attribute.default is not None and attribute.name not in base.given:
                explicit = dataclasses.replace(base, given={**base.given, attribute.name: attribute.default})
                for opset in (9, 13, 18, 22):
                    dtypes = next(_choices(name, base))
                    if remembered(attempt := Attempt(name, base, dtypes), opset) is Built:
                        same = build(attempt, opset) == build(Attempt(name, explicit, dtypes), opset)
                        changed |= set() if same else {f"{name}.{attribute.name}"}
    assert changed == {"Softmax.axis", "LogSoftmax.axis", "Hardmax.axis", "GridSample.mode"}, (
        "the operators whose default changed need `since`"
    )


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_positions_and_keywords_in_any_order_give_the_same_node(data: st.DataObject) -> None:
    """Arguments by position may be given by name, in any order, at every opset."""
    name = data.draw(st.sampled_from([name for name in NAMES if name not in PROGRAMS and not history("", name)[-1].variadic]))
    attempt = data.draw(st.sampled_from(attempts(name)))
    opset = data.draw(st.sampled_from(list(BUILT)))
    assert isinstance(attempt.given, OpCall)
    newest = history("", name)[-1]
    given = {formal.name: S(2, 3) for formal in newest.inputs if not formal.optional} | dict(attempt.given.given)
    positions = [formal.name for formal in newest.inputs if formal.name in given or formal.optional]
    leading = data.draw(st.integers(0, len(positions)))
    keywords = data.draw(st.permutations([key for key in given if key not in positions[:leading]]))

    def run(positional: int, order: Sequence[str]) -> str:
        op = Builder(opset, fold=False)
        dtypes, variables = dict(attempt.dtypes), {formal.name: formal.variable for formal in newest.inputs}
        filled = {key: _argument(op, dtypes, key, variables.get(key, ""), value) for key, value in sorted(given.items())}
        args = [filled.get(key) for key in positions[:positional]]
        try:
            op.call("", name, *args, outputs=attempt.given.outputs, **{key: filled[key] for key in order})  # type: ignore[union-attr]
        except OpsetError as error:
            return str(error.first_opset)
        return "\n".join(map(str, state_of(op).scope.nodes))

    assert run(leading, keywords) == run(0, sorted(given))


@pytest.mark.parametrize("opset", [9, 13, 28])
def test_positions_are_those_of_the_newest_version(opset: int) -> None:
    op = Builder(opset)
    x = op.input("x", TensorType(torch.float32, (1, 1, 2, 2)))
    if opset == 9:
        with pytest.raises(OpsetError) as raised:
            op.Resize(x, None, [1.0, 1.0, 2.0, 2.0])
        assert raised.value.first_opset == 10
    else:
        assert op.Resize(x, None, [1.0, 1.0, 2.0, 2.0]).shape == (1, 1, 4, 4)


def refusal(opset: int, make: Callable[[Builder, Tensor], Any]) -> tuple[str, int | None]:
    op = Builder(opset)
    with pytest.raises(OpsetError) as raised:
        make(op, op.input("x", TensorType(torch.float32, (2, 3))))
    return str(raised.value), raised.value.first_opset


def test_a_refusal_says_what_and_from_which_opset_on() -> None:
    assert refusal(19, lambda op, x: op.Gelu(x)) == ("ONNX has no Gelu at opset 19; opset 20 can express this call", 20)
    assert refusal(9, lambda op, x: op.Clip(x, op.ReduceMin(x, keepdims=0))) == (
        "min is an attribute of Clip at opset 9: it must be known at export; opset 11 can express this call",
        11,
    )
    assert refusal(10, lambda op, x: op.Clip(op.cast(x, torch.int64), 0, 5)) == (
        "ONNX's Clip does not take torch.int64 as input at opset 10; opset 12 can express this call",
        12,
    )
    assert refusal(12, lambda op, x: op.Pad(x, [0, 1, 0, 1], axes=[0, 1])) == (
        "Pad has no axes at opset 12; opset 18 can express this call",
        18,
    )
    assert refusal(18, lambda op, x: op.Cast(x, to=torch.float8_e5m2)) == (
        "ONNX's Cast does not return torch.float8_e5m2 at opset 18; opset 19 can express this call",
        19,
    )
    assert refusal(11, lambda op, x: op.Scatter(x, op.constant([[0]]), op.constant([[1.0]]))) == (
        "ONNX has no Scatter at opset 11; opset 10 is the last that can express this call",
        None,
    )


def test_a_refusal_counts_everything_that_the_call_needs() -> None:
    """Clip takes min as an input from 11 on and int64 from 12 on; 12 has both."""

    def dynamic_int64(op: Builder, x: Tensor) -> Any:
        x = op.cast(x, torch.int64)
        return op.Clip(x, op.Squeeze(op.Slice(op.Shape(x), [0], [1])))

    assert refusal(9, dynamic_int64)[1] in (10, 12)
    assert refusal(10, dynamic_int64)[1] == 12


def test_another_domain_says_the_version_to_import() -> None:
    op = Builder(20)
    x = op.input("x", TensorType(torch.float32, (2, 3)))
    with pytest.raises(LoweringError, match=re.escape("custom_opsets={'ai.onnx.ml': 5}")):
        op.domain("ai.onnx.ml").TreeEnsemble(x, n_targets=1, nodes_featureids=[0], leaf_targetids=[0], nodes_trueleafs=[1],
            nodes_falseleafs=[1], nodes_falsenodeids=[0], nodes_truenodeids=[0], tree_roots=[0],
            nodes_modes=torch.zeros(1, dtype=torch.uint8), nodes_splits=torch.zeros(1), leaf_weights=torch.zeros(1))  # fmt: skip


def test_what_no_version_takes_is_a_type_error_with_the_real_signature() -> None:
    op = Builder(20)
    x = op.input("x", TensorType(torch.float32, (2, 3)))
    with pytest.raises(TypeError, match=r"Relu has no input or attribute alpha; it takes the inputs \(X\)"):
        op.Relu(x, alpha=1.0)
    with pytest.raises(TypeError, match="Add got B twice"):
        op.Add(x, x, B=x)
    with pytest.raises(TypeError, match="2 positional arguments were given"):
        op.Relu(x, x)
    with pytest.raises(TypeError, match="Conv at opset 20 also needs X, W"):
        op.Conv()
    with pytest.raises(TypeError, match="Concat at opset 20 also needs axis"):
        op.Concat(x, x)
    with pytest.raises(TypeError, match="does not fit the attribute axis"):
        op.Concat(x, x, axis="one")
    with pytest.raises(AttributeError, match="ONNX has no operator Foo"):
        op.Foo(x)
    with pytest.raises(AttributeError, match="capital"):
        op.relu(x)
    with pytest.raises(LoweringError, match="Relu has 1 outputs at opset 20, not 2"):
        op.Relu(x, outputs=2)


@pytest.mark.parametrize(
    ("name", "dtype", "opset", "expected"),
    [
        ("Erf", torch.float64, 9, True),
        ("Conv", torch.int64, 20, False),
        ("Where", torch.int16, 20, True),
        ("Where", torch.bfloat16, 13, False),
        ("ConstantOfShape", torch.bool, 20, True),
        ("RandomNormal", torch.int64, 20, False),
        ("Gelu", torch.float32, 19, False),
        ("Gelu", torch.float32, 20, True),
        ("Gelo", torch.float32, 20, False),
    ],
)
def test_what_an_operator_takes(name: str, dtype: torch.dtype, opset: int, expected: bool) -> None:
    assert Builder(opset).takes(name, dtype) is expected
