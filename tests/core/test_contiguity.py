"""The operators listed as contiguous, against torch's sample inputs."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from onnxexp._functionalize.contiguity import _AS_WITHOUT_DATA, _IF_INPUTS_ARE, _LIKE_FIRST, Contiguity
from onnxexp._functionalize.mutation import MutationInfo, packet
from tests.core.interpreter import capture
from tests.core.test_functionalize import Lambda

_SAMPLES = 12
_BY_OTHER_NAMES = {
    **{f"aten::_upsample_nearest_exact{rank}d": f"aten::upsample_nearest{rank}d" for rank in (1, 2, 3)},
}
"""Operators that torch's samples do not call, each with one that shares its kernel."""
_UNTRIED = {f"aten::{name}" for name in ("_to_copy", "to", "alias", "lift_fresh", "lift_fresh_copy", "dropout", "type_as")}
"""Operators with a memory format, or that return their argument."""


class _Calls(TorchDispatchMode):
    """Collects the layouts of results, by operator."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, set[bool]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.add(packet(str(func._schema.name)), (args, kwargs), result)
        return result

    def add(self, name: str, inputs: Any, result: Any) -> None:
        given, made = ([leaf for leaf in pytree.tree_leaves(each) if isinstance(leaf, torch.Tensor)] for each in (inputs, result))
        if (
            name in _IF_INPUTS_ARE
            and name not in _UNTRIED
            and given
            and not MutationInfo.of(name).written
            and all(map(_is_plain, given))
        ):
            self.found.setdefault(name, set()).update(map(_is_plain, made))


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.is_contiguous()


def _samples() -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    from torch.testing._internal.common_methods_invocations import op_db  # takes a second

    for info in op_db:
        name = info.name.removeprefix("nn.functional.").replace(".", "_")
        if f"aten::{name}" in _IF_INPUTS_ARE | _LIKE_FIRST or info.name.startswith("nn.functional"):
            dtype = next((dtype for dtype in (torch.float32, torch.int64) if dtype in info.dtypes), None)
            for sample in itertools.islice(info.sample_inputs("cpu", dtype) if dtype is not None else (), _SAMPLES):
                leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
                copies = [leaf.detach().contiguous() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
                input, args, options = pytree.tree_unflatten(copies, spec)
                yield f"aten::{name}", info.op, (input, *args), options


@pytest.mark.full
def test_results_are_contiguous_where_all_inputs_are() -> None:
    calls = _Calls()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for name, function, args, options in _samples():
            with calls:
                result = function(*args, **options)
            calls.add(name, (args, options), result)
    assert [name for name, layouts in calls.found.items() if layouts != {True}] == []
    assert {name for name in _IF_INPUTS_ARE - _UNTRIED if _BY_OTHER_NAMES.get(name, name) not in calls.found} == set()


def _turned(leaf: Any) -> Any:
    """Return the same values with the strides in the opposite order."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    order = [*range(leaf.dim() - 1, -1, -1)]
    return leaf.permute(order).contiguous().permute(order)


@pytest.mark.full
def test_results_are_contiguous_whatever_the_other_arguments() -> None:
    always = {"aten::gather", "aten::index_select", "aten::take"}
    tried = set()
    for name, function, (first, *others), options in _samples():
        if name in _LIKE_FIRST | always and isinstance(first, torch.Tensor):
            others, options = pytree.tree_map(_turned, (others, options))
            for given in [first, _turned(first)] if name in always else [first]:
                assert function(given, *others, **options).is_contiguous(), name
            tried.add(name)
    assert tried == _LIKE_FIRST | always


def test_matrix_products_are_contiguous() -> None:
    shapes = [(5,), (5, 5), (3, 5, 5), (2, 3, 5, 5), (1, 5, 5)]
    for one, other in itertools.product(shapes, shapes):
        a, b = torch.randn(one), torch.randn(other)
        others = (b, b.mT, b[:1].expand(b.shape)) if b.dim() > 1 else (b,)
        for x, y in itertools.product((a, a.mT) if a.dim() > 1 else (a,), others):
            assert torch.matmul(x, y).is_contiguous(), (one, other)


def test_layouts() -> None:
    """The layouts of `Contiguity` are the program's own strides of static values."""

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x * 2).transpose(1, 2)
        products = torch.einsum("bij,bjk->kbi", x, y), torch.einsum("bij,bkj->bik", x, x) + 1
        computed = y + 1, torch.where(y > 0, y, x[0, 0, 0]), y.clone() * 2, x[torch.arange(2) % 2] - 1, y[:, torch.arange(3)]
        parts = x.reshape_as(y).split(1)
        rows = torch.std_mean(x, 1)[0].expand(2, 4)
        return (
            *products,
            *computed,
            y,
            parts[1],
            y[:, 1:],
            y.flatten(1),
            rows,
            torch.matmul(y, x),
            x[:, 1].expand(3, 2, 4),
            y[0].view(2, 2, 3),
        )

    inputs = (torch.randn(2, 3, 4),)
    graph = capture(Lambda(model), inputs)
    layouts = Contiguity(graph)
    for node in graph.nodes:
        layouts.visit(node, MutationInfo.of(node.op))
    for value, result in zip(graph.outputs, model(*inputs), strict=True):
        layout = layouts.layout(value)
        assert layout is not None and layout.stride() == result.stride(), value
        assert (value in layouts.values) <= result.is_contiguous()


@pytest.mark.full
def test_pointwise_operators_have_the_strides_of_the_meta_device() -> None:
    """The operands have another order, are expanded, or have gaps."""
    from torch.testing._internal.common_methods_invocations import binary_ufuncs, unary_ufuncs

    x = torch.rand(2, 3, 4, 5) + 0.1
    operands = [x.transpose(1, 2), x.permute(3, 0, 2, 1), x[:, :1].expand(2, 3, 4, 5), x[..., ::2], x.flip(0)[1:], x[:, :, :1].mT]
    for info in (*unary_ufuncs, *binary_ufuncs):
        if (
            MutationInfo.of(f"aten::{info.name}").pointwise
            and not info.variant_test_name
            and info.name not in ("mvlgamma", "polygamma", "special.polygamma")
            and torch.float32 in info.dtypes
        ):
            for operand in operands:
                args = (operand,) if info in unary_ufuncs else (operand, operand.flip(-1))
                there = tuple(torch.empty_strided(arg.shape, arg.stride(), device="meta") for arg in args)
                result, layout = info.op(*args), info.op(*there)
                steps = [
                    [step for step, size in zip(each.stride(), each.shape, strict=True) if size > 1] for each in (result, layout)
                ]
                assert result.shape == layout.shape and steps[0] == steps[1], info.name


def _in_another_order(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() > 1 else x


def _with_gaps(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x], -1)[..., : x.shape[-1]] if x.dim() else x


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def _steps(x: torch.Tensor) -> tuple[Any, list[int]]:
    return x.shape, [step for step, size in zip(x.stride(), x.shape, strict=True) if size > 1]


@pytest.mark.full
def test_other_operators_have_the_strides_of_the_meta_device() -> None:
    """The arguments have another order, gaps, or the channels-last format."""
    differ, tried = set(), set()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for name, function, args, options in _samples():
            if name not in _AS_WITHOUT_DATA:
                continue
            for change in (_in_another_order, _with_gaps, _channels_last):
                given = pytree.tree_map_only(torch.Tensor, change, (args, options))
                there = pytree.tree_map_only(
                    torch.Tensor, lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta"), given
                )
                try:
                    layouts = pytree.tree_leaves(function(*there[0], **there[1]))
                except (RuntimeError, TypeError, NotImplementedError):  # such a result has no certain layout
                    continue
                tried.add(name)
                results = pytree.tree_leaves(function(*given[0], **given[1]))
                pairs = [pair for pair in zip(results, layouts, strict=True) if isinstance(pair[0], torch.Tensor)]
                if any(_steps(one) != _steps(other) for one, other in pairs if one.numel()):
                    differ.add(name)
    assert differ == set()
    assert len(tried) > 100
