"""Compare a program with its original on given, random or resized inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from onnxexp._capture.example_inputs import other_examples, resize_example
from onnxexp._checking.comparison import Tolerances, VerificationReport, compare, run_eager
from onnxexp._checking.exported import Exported
from onnxexp._checking.onnx_slices import Runner
from onnxexp._checking.torch_interpreter import is_random
from onnxexp._errors import OnnxExporterError, OptionError, VerificationError
from onnxexp._neutral_graph import Value, values_in
from onnxexp._request.dynamic_shapes import DynamicSpec
from onnxexp._request.tensor_list import TensorList
from onnxexp._symbolic_size import SymbolicSize


class InputCase(NamedTuple):
    """Inputs to compare on.

    `text` has the inputs in words, or "" for the example and for the inputs of the call. With `optional`, the original may refuse
    them.
    """

    text: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    optional: bool = False


def cases_of(program: Exported, inputs: Any, seed: int = 0) -> Iterator[InputCase]:
    """Yield the inputs of `ONNXProgram.verify` for its argument `inputs`.

    Raises OptionError for other values of the argument.
    """
    args, kwargs = program.example
    if inputs == "random":
        yield InputCase("the inputs are random", *random_like(args, kwargs, seed))
    elif inputs in ("sizes", "repeated"):
        yield InputCase("" if inputs == "repeated" else "the inputs are the example", args, kwargs)
        for sizes, other, named in other_examples(args, kwargs, program.spec) if program.spec is not None else ():
            fitting = _with_sums(other, named, program.spec)
            resized = fitting if inputs == "repeated" else random_like(*fitting, seed)
            yield InputCase(sizes, *resized, optional=True)
    elif isinstance(inputs, (list, tuple)) and inputs:
        for index, given in enumerate(inputs):
            text = f"the inputs are inputs[{index}]"
            if isinstance(given, Mapping):
                yield InputCase(text, (), given)
            else:
                yield InputCase(text, (given,) if isinstance(given, torch.Tensor) else tuple(given), {})
    else:
        raise OptionError(
            f"inputs is {inputs!r}; give a list of argument tuples, 'random', 'sizes' (random ones at other sizes), or "
            "'repeated' (the example, repeated to other sizes)"
        )


def _with_sums(
    args: Sequence[Any], kwargs: Mapping[str, Any], spec: DynamicSpec | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Resize the axes whose name is computed from others, as ``past + sequence``."""
    flat, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    named = {(i, axis): each.name for i, axes in enumerate(spec.axes if spec else ()) for axis, each in axes.items() if each.name}
    values = {name: flat[index].shape[axis] for (index, axis), name in named.items() if name.isidentifier()}
    for (index, axis), name in named.items():
        size = None if name in values else SymbolicSize(name).at(values)
        if size is not None:
            flat[index] = resize_example(flat[index], axis, size)
    return pytree.tree_unflatten(flat, structure)  # type: ignore[no-any-return]


def verify(
    program: Exported,
    runner: Runner,
    cases: Sequence[InputCase],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    tolerances: Tolerances | None = None,
) -> VerificationReport:
    """Compare all outputs on all cases.

    Raises VerificationError, and OnnxExporterError where the program cannot be run.
    """
    if program.eager is None:
        raise OnnxExporterError("this program was made without an original to compare with")
    random = random_outputs(program)
    reports, skipped = [], []
    for case in cases:
        try:
            with warnings.catch_warnings():
                if case.optional:
                    warnings.simplefilter("ignore")
                leaves = program.signature.flatten(case.args, case.kwargs)
                expected = run_eager(program.eager, case.args, case.kwargs)
        except Exception as error:  # outside the restrictions, or the user's model raises: no size to compare
            if not case.optional:
                raise
            skipped.append(f"{case.text}: the model refuses it ({type(error).__name__}: {str(error).splitlines()[0][:120]})")
            continue
        try:
            results = runner.run({**program.weights, **program.signature.feeds(leaves)})
            names = program.signature.output_names([value.name or "" for value in program.model.graph.outputs], results)
            actual = program.signature.unflatten(results, leaves)
            report = compare(expected, actual, names, rtol=rtol, atol=atol, tolerances=tolerances, random=random)
        except OnnxExporterError as error:
            if not case.text:
                raise
            raise VerificationError(f"where {case.text}: {error}") from error
        reports.append(VerificationReport(report.outputs, case.text))
    report = VerificationReport.of(reports, skipped)
    report.raise_for_difference()
    return report


def random_outputs(program: Exported) -> frozenset[str]:
    """Return the names of the outputs that depend on random numbers.

    A dropout in training mode draws some.
    """
    if program.record is None:
        return frozenset()
    graph, random = program.record.graph, set[Value]()
    for node in graph.nodes:
        read = {*node.inputs(), *(value for block in node.blocks for each in block.walk() for value in each.inputs())}
        if not random.isdisjoint(read) or is_random(node):
            random.update(node.outputs)
    drawn = [index for index, output in enumerate(graph.outputs) if not random.isdisjoint(values_in(output))]
    names = [value.name or "" for value in program.model.graph.outputs]
    slots = [program.signature.outputs[index].output for index in drawn if index < len(program.signature.outputs)]
    return frozenset(names[slot] for slot in slots if slot is not None)


_FEW = 16
"""An example with up to so many different numbers is taken for a mask or labels: its own numbers are drawn."""


def random_like(args: Sequence[Any], kwargs: Mapping[str, Any], seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Replace the tensors of a call by random ones.

    A tensor that occurs twice is replaced by one tensor. Floats are normal numbers with the example's mean and deviation,
    integers lie between its least and greatest. Tensors with a few different numbers (masks, labels) get these numbers again.
    """
    generator = torch.Generator().manual_seed(seed)
    made: dict[int, Any] = {}

    def replace(leaf: Any) -> Any:
        if isinstance(leaf, TensorList):
            return TensorList(replace(element) for element in leaf)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = _random_tensor(leaf, generator)
        return made[id(leaf)]

    return pytree.tree_map(replace, (tuple(args), dict(kwargs)))  # type: ignore[no-any-return]


def _random_tensor(example: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if example.numel() == 0 or example.is_quantized or example.is_sparse or example.is_nested:
        return example
    flat = example.detach().cpu().reshape(-1)
    if flat.is_complex():
        return torch.view_as_complex(_random_tensor(torch.view_as_real(flat), generator)).reshape(example.shape)
    wide = flat.double()
    values = torch.unique(wide) if flat.numel() > _FEW or flat.dtype == torch.bool else wide
    if flat.dtype == torch.bool or (flat.numel() > _FEW and len(values) <= _FEW):
        drawn = values[torch.randint(len(values), (flat.numel(),), generator=generator)]
    elif flat.dtype.is_floating_point:
        finite = wide[wide.isfinite()]
        mean, deviation = (float(finite.mean()), float(finite.std(correction=0))) if len(finite) else (0.0, 1.0)
        drawn = torch.randn(flat.numel(), dtype=torch.float64, generator=generator) * (deviation or 1.0) + mean
    else:
        low, high = int(wide.min()), int(wide.max())
        drawn = torch.randint(low, high + 1, (flat.numel(),), generator=generator)
    return drawn.to(flat.dtype).reshape(example.shape).to(example.device).requires_grad_(example.requires_grad)
