"""Export one sample, check the model, run it, and compare with eager."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from unittest import mock

import onnx
import onnx_ir as ir
import torch
from torch.utils import _pytree as pytree

from onnxexp._model.onnxruntime_session import Session
from onnxexp.testing._other_sizes import Sizes, inputs_at, larger_sizes, sizes_of_one, symbol_values

from .exporters import DYNAMIC, Exported, classify, export
from .samples import Sample
from .sizes import free_axes, misdeclared, resize_for

FAILURES = ("wrong", "invalid", "crash", "version", "unsupported", "opset", "capture")
"""The failing outcomes, worst first. The others are "pass", "random" (only shapes are compared), and "eager" (eager fails)."""

_TOLERANCES = {
    torch.float16: (4e-3, 2e-3),
    torch.float32: (2e-5, 1e-5),
    torch.float64: (2e-5, 1e-5),
    torch.complex64: (2e-5, 1e-5),
    torch.complex128: (2e-5, 1e-5),
}
"""(relative, absolute by the largest magnitude). float64 has float32's tolerance, since some kernels compute in float32."""

_OF_EQUALS = ("argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk")
"""Operators that return indices of values; among equal values, any index is right."""

_UP_TO_SIGN = ("linalg.eigh", "linalg.svd", "pca_lowrank", "svd", "svd_lowrank")
"""Eigenvectors and singular vectors are determined up to their signs only."""

_UNCHECKED: Mapping[str, Callable[[Sequence[torch.Tensor]], bool]] = MappingProxyType(
    {
        "nn.functional.ctc_loss": lambda tensors: int(tensors[1].max()) < tensors[0].shape[-1],
        "lu_unpack": lambda tensors: tensors[1].shape[-1] == min(tensors[0].shape[-2:]),
        "resize_": lambda tensors: tensors[0].numel() >= 125,  # the largest of the fixed sizes, (25, 5)
        "resize_as_": lambda tensors: tensors[0].numel() >= tensors[1].numel(),
    }
)
"""Whether the indices are inside, for operators that read or write other memory in eager where they are not."""

_UNINITIALIZED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "empty_permuted")
_RANDOM = ("normal",)
"""Operators that are random, though their results in float16 may be infinite for every seed."""


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of a sample at an opset."""

    op: str
    dtype: str
    sample: int
    opset: int
    exporter: str
    outcome: str
    detail: str = ""
    seconds: float = 0.0
    """Processor time of the export alone."""
    others: str = ""
    """For a dynamic export that is right at the sample's sizes, the sets of sizes that it was checked at besides: "larger and 1",
    "larger", "1"; else "refused": eager or the range that the export stated accepts no other sizes; "static": no axis came
    out dynamic; "fixed": eager accepts no axis at another size; "single": no axis is longer than 1."""


@dataclasses.dataclass(frozen=True)
class _Verdict:
    outcome: str
    detail: str = ""
    others: str = ""


class Judge:
    """The judge of one sample, with one eager result for all exporters and opsets."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self._name = sample.op.split()[-1]  # without the prefix of another part
        self._resize = resize_for(self._name)
        self.trouble = ""
        try:
            self.expected = self._eager(0)
            others = [self._eager(seed) for seed in (1, 2, 3)]  # several, since one may be equal by chance
        except Exception as error:  # noqa: BLE001 - samples that fail in eager are excluded
            self.trouble = _short(error)
            return
        if not any(isinstance(leaf, torch.Tensor) for leaf in self.expected):
            self.trouble = "the result has no tensor"
        self.random = self._name in (*_UNINITIALIZED, *_RANDOM) or any(self._differs(other) for other in others)

    def _differs(self, other: list[Any]) -> bool:
        return len(other) != len(self.expected) or any(difference(*pair) for pair in zip(self.expected, other, strict=True))

    def _eager(self, seed: int, tensors: Sequence[torch.Tensor] | None = None) -> list[Any]:
        """Run the sample in eager.

        OpInfo's own seeding is disabled, since it would hide that an operator is random.
        """
        torch.manual_seed(seed)
        with torch.no_grad(), mock.patch.object(torch, "manual_seed"):
            inputs = self.sample.tensors if tensors is None else tensors
            return _leaves(self.sample.module(*(tensor.clone() for tensor in inputs)))

    def judge(self, exporter: str, opset: int) -> Result:
        """Export the sample at an opset, and compare the model with eager."""
        sample = self.sample
        start = time.process_time()
        seconds = 0.0
        if self.trouble:
            verdict = _Verdict("eager", self.trouble)
        else:
            try:
                axes = self.axes if exporter in DYNAMIC else ()
                start = time.process_time()
                found = export(exporter, sample.module, sample.tensors, opset, axes)
                seconds = time.process_time() - start
                verdict = self._verdict(found, opset, dynamic=exporter in DYNAMIC)
            except Exception as error:  # noqa: BLE001 - every error of an exporter is a result
                seconds = time.process_time() - start
                verdict = _Verdict(classify(error), _short(error))
        key = sample.op, sample.dtype, sample.index, opset, exporter
        return Result(*key, verdict.outcome, verdict.detail, round(seconds, 4), verdict.others)

    @functools.cached_property
    def axes(self) -> list[list[int]]:
        """The axes of each tensor that eager accepts at another size."""
        return free_axes(self.sample.tensors, lambda tensors: self._expected(tensors) is not None, self._resize)

    def _expected(self, tensors: Sequence[torch.Tensor], seed: int = 0) -> list[Any] | None:
        """Return eager's results at other sizes, or None.

        The result is None where eager refuses the sizes, or returns another number of results or other dtypes: sum_to_size
        returns a bool tensor as it is where nothing is to be added.
        """
        try:
            expected = self._eager(seed, tensors)
        except Exception:  # noqa: BLE001 - the operator does not accept these sizes
            return None
        return expected if _dtypes(expected) == _dtypes(self.expected) else None

    def _verdict(self, found: Exported, opset: int, *, dynamic: bool) -> _Verdict:
        model = found.model
        declared = next(entry.version for entry in model.opset_import if entry.domain == "")
        if declared != opset:
            return _Verdict("version", f"the target is opset {opset}, the model has {declared}")
        try:
            onnx.checker.check_model(model, full_check=True)
            actual = _run(model, self.sample.tensors)
        except Exception as error:  # noqa: BLE001 - onnx's and ONNX Runtime's errors have no common base
            return _Verdict("invalid", _short(error))
        problem = self._problem(self.expected, actual, self.sample.tensors)
        others = ""
        if dynamic and not problem:
            others, problem = self._at_other_sizes(found)
        outcome = "wrong" if problem else "random" if self.random else "pass"
        return _Verdict(outcome, problem, others)

    def _problem(self, expected: list[Any], actual: list[Any], tensors: Sequence[torch.Tensor]) -> str:
        """Return the problem with the outputs, "" without one."""
        if len(actual) != len(expected):
            return f"{len(expected)} outputs in eager, {len(actual)} in ONNX"
        quanta = self.sample.quanta(tensors) or [0.0] * len(expected)
        for number, (one, other, quantum) in enumerate(zip(expected, actual, quanta, strict=True)):
            one, other = self._up_to_sign(one), self._up_to_sign(other)
            problem = difference(one, other, values=not self.random, quantum=quantum)
            if problem and not self._as_good(expected, number, other, tensors) and not self._precise(number, other, tensors):
                return f"output {number}: {problem}"
        return ""

    def _at_other_sizes(self, found: Exported) -> tuple[str, str]:
        """Return `Result.others`, and the first problem at larger sizes and at sizes 1."""
        tensors = {f"input_{index}": tensor for index, tensor in enumerate(self.sample.tensors)}
        symbols = symbol_values(found.model, tensors)
        if not symbols:
            long = any(size > 1 for tensor in self.sample.tensors for size in tensor.shape)
            return "static" if any(self.axes) else "fixed" if long else "single", ""
        accepts = functools.partial(self._accepts, found, tensors)
        sets = {"larger": next(filter(accepts, larger_sizes(symbols)), None), "1": sizes_of_one(symbols, accepts)}
        accepted = {name: sizes for name, sizes in sets.items() if sizes is not None}
        problems = (self._at(found.model, tensors, sizes) for sizes in accepted.values())
        return " and ".join(accepted) or "refused", next(filter(None, problems), "")

    def _resized(self, model: onnx.ModelProto, tensors: Mapping[str, torch.Tensor], sizes: Sizes) -> list[torch.Tensor]:
        return list({**tensors, **inputs_at(model, tensors, sizes, self._resize)}.values())

    def _accepts(self, found: Exported, tensors: Mapping[str, torch.Tensor], sizes: Sizes) -> bool:
        """Return whether eager and the exported program take these sizes."""
        changed = self._resized(found.model, tensors, sizes)
        return found.takes(changed) and self._is_determined(changed)

    def _is_determined(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether eager takes the tensors, and its result depends on them alone.

        In svd_lowrank, a vector of a singular value of 0 depends on random numbers.
        """
        one, other = (self._expected(tensors, seed) for seed in (0, 1))
        if one is None or other is None or (self._name in _UNCHECKED and not _UNCHECKED[self._name](tensors)):
            return False
        return self.random or all(not difference(*map(self._up_to_sign, pair)) for pair in zip(one, other, strict=True))

    def _up_to_sign(self, result: Any) -> Any:
        return result.abs() if self._name in _UP_TO_SIGN and isinstance(result, torch.Tensor) else result

    def _at(self, model: onnx.ModelProto, tensors: Mapping[str, torch.Tensor], sizes: Sizes) -> str:
        """Return the problem at other sizes, "" without one."""
        changed = self._resized(model, tensors, sizes)
        try:
            actual = _run(model, changed)
            problem = self._problem(self._eager(0, changed), actual, changed) or misdeclared(model, sizes, actual)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors have no common base
            problem = _short(error)
        shapes = ", ".join(str(list(tensor.shape)) for tensor in changed)
        return f"at sizes {shapes}: {problem}" if problem else ""

    def _precise(self, number: int, found: torch.Tensor, tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether a result equals eager's in float64.

        Eager's float16 may lose digits or overflow; its float32 loses digits where equal numbers cancel.
        """
        if found.dtype not in (torch.float16, torch.float32) or self.random:
            return False
        doubles = [tensor.double() if tensor.dtype == found.dtype else tensor for tensor in tensors]
        try:
            exact = torch.as_tensor(self._eager(0, doubles)[number])
        except Exception:  # noqa: BLE001 - without float64, eager's own dtype decides
            return False
        return exact.dtype == torch.float64 and not difference(exact.to(found.dtype), found)

    def _as_good(self, expected: list[Any], number: int, places: torch.Tensor, tensors: Sequence[torch.Tensor]) -> bool:
        """Return whether other indices than eager's refer to the same values.

        Among equal elements any index is right.
        """
        known = expected[number]
        x = tensors[0]
        if self._name not in _OF_EQUALS or places.dtype != torch.int64 or places.shape != known.shape or x.dim() == 0:
            return False
        if self._name == "argsort":
            dims = [dim for dim in range(x.dim()) if int(known.max()) < x.shape[dim]]
            return any(_gathers(x, dim, places, x.gather(dim, known)) for dim in dims)
        values = expected[0]
        if places.dim() < x.dim():
            return any(_gathers(x, dim, places.unsqueeze(dim), values.unsqueeze(dim)) for dim in range(x.dim()))
        return any(_gathers(x, dim, places, values) for dim in range(x.dim()))


def _gathers(x: torch.Tensor, dim: int, places: torch.Tensor, values: torch.Tensor) -> bool:
    fits = all(one <= other or axis == dim for axis, (one, other) in enumerate(zip(places.shape, x.shape, strict=True)))
    inside = places.numel() == 0 or (int(places.min()) >= 0 and int(places.max()) < x.shape[dim])
    return fits and inside and torch.allclose(x.gather(dim, places), values, rtol=0, atol=0, equal_nan=True)


def _dtypes(results: Sequence[Any]) -> list[torch.dtype]:
    return [torch.as_tensor(result).dtype for result in results]


def _leaves(outputs: Any) -> list[Any]:
    return [leaf for leaf in pytree.tree_leaves(outputs) if leaf is not None]


def _run(model: onnx.ModelProto, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = {f"input_{index}": tensor for index, tensor in enumerate(tensors)}
    if any("bfloat16" in slot.type for slot in (*session.get_inputs(), *session.get_outputs())):  # numpy has no such dtype
        return Session(ir.from_proto(model)).run({slot.name: inputs[slot.name] for slot in session.get_inputs()})
    feeds = {slot.name: _array(inputs[slot.name], slot.type) for slot in session.get_inputs()}
    flat = (part for result in session.run(None, feeds) for part in (result if isinstance(result, list) else [result]))
    return [torch.as_tensor(part) for part in flat]


def _array(tensor: torch.Tensor, type_: str) -> Any:
    """Convert a tensor to numpy.

    A complex tensor becomes pairs of reals unless the graph takes complex values.
    """
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() and "complex" not in type_ else tensor
    return real.resolve_neg().contiguous().numpy()


def difference(expected: Any, actual: Any, *, values: bool = True, quantum: float = 0.0) -> str:
    """Return the problem with one output, "" without one.

    A result that is rounded to multiples of `quantum` may differ by one.
    """
    one, other = torch.as_tensor(expected).detach(), torch.as_tensor(actual).detach()
    if one.is_complex() and not other.is_complex():
        one = torch.view_as_real(one.resolve_conj())
    if one.dtype != other.dtype:
        return f"{one.dtype} in eager, {other.dtype} in ONNX"
    if one.shape != other.shape:
        return f"shape {list(one.shape)} in eager, {list(other.shape)} in ONNX"
    if not values or not one.numel():
        return ""
    relative, absolute = _TOLERANCES.get(one.dtype, (0.0, 0.0))
    finite = one[one.isfinite()].abs() if relative else torch.empty(0)
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    try:
        torch.testing.assert_close(other, one, rtol=relative, atol=absolute * scale + quantum, equal_nan=True)
    except AssertionError as error:
        return _short(error, 300)
    return ""


def _short(error: BaseException, length: int = 400) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:length]
