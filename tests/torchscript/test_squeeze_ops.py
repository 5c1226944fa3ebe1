"""`squeeze` and `chunk` of sizes that are 1, in the example or at run time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import onnxexp

Model = Callable[[Tensor], Tensor]


def pooled(x: Tensor) -> Tensor:
    return functional.max_pool1d(x, 2).squeeze(-1) + 1


def pooled_without_axis(x: Tensor) -> Tensor:
    return functional.avg_pool1d(x, 2).squeeze() + 1


def sliced(x: Tensor) -> Tensor:
    return x[:, :, 2:].squeeze(2) + 1


def convolved(x: Tensor) -> Tensor:
    return functional.conv1d(x, torch.ones(1, 4, 3)).squeeze(-1) + 1


def several(x: Tensor) -> Tensor:
    return x[:, :1, 2:].squeeze((1, 2)) + 1


def exported(model: Model, x: Tensor, capture: str) -> tuple[onnxexp.ONNXProgram, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = onnxexp.export(model, (x,), capture=capture, dynamic_shapes=({0: "batch", 2: "n"},))
    lines = [line.strip() for warning in caught for line in str(warning.message).splitlines()]
    return program, [line for line in lines if line.startswith("squeeze")]


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize(
    ("model", "gone", "right", "wrong"),
    [
        (pooled, "2", (2, 3), (4, 5, 9)),
        (pooled_without_axis, "2", (2, 3), (4, 5)),
        (sliced, "2", (3,), (2, 4, 7)),
        (convolved, "2", (3,), (4, 7)),
        (several, "1, 2", (3,), (4, 7)),
    ],
)
def test_an_axis_of_size_1_in_the_example(
    capture: str, model: Model, gone: str, right: Sequence[int], wrong: Sequence[int]
) -> None:
    """A program is right at size 1, and refused elsewhere, where eager's rank differs."""
    if capture == "script" and model is pooled:
        with pytest.raises(onnxexp.CaptureError, match="whether an axis is 1 long"):
            exported(model, torch.randn(2, 4, 3), capture)
        return
    program, told = exported(model, torch.randn(2, 4, 3), capture)
    assert len(told) == 1 and told[0].startswith(f"squeeze removes axis {gone}, as for the example, at File")
    for size in right:
        x = torch.randn(3, 4, size)
        torch.testing.assert_close(program(x), model(x))
    for size in wrong:
        with pytest.raises(onnxexp.OnnxExporterError, match="right only where .* == 1|ONNX Runtime"):
            program(torch.randn(3, 4, size))


def kept(x: Tensor) -> Tensor:
    return x.unsqueeze(1).squeeze(1).squeeze(-1)


@pytest.mark.parametrize("capture", ["trace", "script"])
def test_known_sizes_are_not_told(capture: str) -> None:
    program, told = exported(kept, torch.randn(2, 4, 3), capture)
    assert told == []
    for shape in [(1, 4, 5), (3, 4, 3)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), kept(x))


def selected(x: Tensor) -> Tensor:
    return x[:, :, x[0, 0] > 1].squeeze(-1) + 1


def test_a_size_that_depends_on_data() -> None:
    """The rank that the trace recorded decides."""
    x = torch.arange(24.0).reshape(2, 4, 3)
    program, told = exported(selected, x, "trace")
    assert len(told) == 1
    x = torch.arange(36.0).reshape(3, 4, 3)
    torch.testing.assert_close(program(x), selected(x))
    with pytest.raises(onnxexp.OnnxExporterError, match="ONNX Runtime"):
        program(x + 1)


def test_a_size_that_depends_on_data_in_a_script() -> None:
    with pytest.raises(onnxexp.CaptureError, match="whether an axis is 1 long here; to fix this, select element 0") as raised:
        exported(selected, torch.arange(24.0).reshape(2, 4, 3), "script")
    assert "x[0, 0] > 1].squeeze(-1)" in str(raised.value)


ROW = torch.tensor([False, True])


def selected_in_place(x: Tensor) -> Tensor:
    y = x[ROW]
    y.squeeze_()
    return y * y.shape[0] + y.dim()


@pytest.mark.parametrize("dynamic", [None, ({1: "n"},)])
def test_a_size_that_depends_on_data_squeezed_in_place(dynamic: Any) -> None:
    with pytest.warns(UserWarning, match="squeeze removes axis 0, as for the example, at File"):
        program = onnxexp.export(selected_in_place, (torch.randn(2, 3),), capture="trace", dynamic_shapes=dynamic)
    for size in (3, 5) if dynamic else (3,):
        x = torch.randn(2, size)
        torch.testing.assert_close(program(x), selected_in_place(x))


def squeezed(x: Tensor) -> Tensor:
    return x.squeeze() + 1


def squeezed_axis(x: Tensor) -> Tensor:
    return x.squeeze(0) * 2


def squeezed_in_place(x: Tensor) -> Tensor:
    y = x + 1
    return y.squeeze_(0) * 2


def squeezed_copy(x: Tensor) -> Tensor:
    return torch.squeeze_copy(x, 0) * 2


def squeezed_part(x: Tensor) -> Tensor:
    return x[1:].squeeze(0) * 2


def last_half(x: Tensor) -> Tensor:
    return x.chunk(2)[-1]


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (squeezed, "n != 1"),
        (squeezed_axis, "n != 1"),
        (squeezed_in_place, "n != 1"),
        (squeezed_copy, "n != 1"),
        (squeezed_part, "n - 1 != 1"),
    ],
)
def test_a_size_that_becomes_1(capture: str, model: Model, wrong: str) -> None:
    """The program refuses such a call, whose result has another shape; export warns."""
    with pytest.warns(UserWarning, match=f"right only where {wrong} ") as caught:
        program = onnxexp.export(model, (torch.randn(4, 3),), capture=capture, dynamic_shapes=({0: "n"},), opset_version=13)
    line = next(line for line in str(caught[0].message).splitlines() if "right only" in line)
    assert f'"{__file__}", line {model.__code__.co_firstlineno + 1 + (model is squeezed_in_place)}: ' in line  # type: ignore[attr-defined]
    assert program.model.metadata_props["onnxexp.restrictions"] == wrong
    size = 2 if model is squeezed_part else 1
    for other in (3, 7):
        x = torch.randn(other, 3)
        torch.testing.assert_close(program(x), model(x))
    with pytest.raises(onnxexp.OnnxExporterError, match=f"right only where {wrong}; the call has other sizes"):
        program(torch.randn(size, 3))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_product_that_becomes_1(capture: str) -> None:
    """One of the axes has to be 1, and the other 2."""
    with pytest.warns(UserWarning, match=r"right only where a\*b - 1 != 1 "):
        program = onnxexp.export(
            lambda x: x.flatten()[:-1].squeeze() + 1, (torch.randn(2, 3),), capture=capture, dynamic_shapes=({0: "a", 1: "b"},)
        )
    for sizes in ((2, 1), (1, 2)):
        with pytest.raises(onnxexp.OnnxExporterError, match="the call has other sizes"):
            program(torch.randn(sizes))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_an_indexed_piece_needs_no_number_of_pieces(capture: str) -> None:
    """The index is captured as a slice, which is right where the axis is not split."""
    program = onnxexp.export(last_half, (torch.randn(4, 3),), capture=capture, dynamic_shapes=({0: "n"},), opset_version=13)
    assert "onnxexp.restrictions" not in program.model.metadata_props
    for size in (0, 1, 2, 3, 7):
        x = torch.randn(size, 3)
        torch.testing.assert_close(program(x), last_half(x))


def test_a_scripted_chunk_that_does_not_split() -> None:
    with pytest.warns(UserWarning, match="right only where n != 1 "):
        program = onnxexp.export(last_half, (torch.randn(4, 3),), capture="script", dynamic_shapes=({0: "n"},), opset_version=13)
    with pytest.raises(onnxexp.OnnxExporterError, match="right only where n != 1; the call has other sizes"):
        program(torch.randn(1, 3))


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_a_size_that_the_user_excludes(capture: str) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the exported model is right only where")
        sizes = ({0: torch.export.Dim.DYNAMIC(min=3)},)
        program = onnxexp.export(squeezed, (torch.randn(4, 3),), capture=capture, dynamic_shapes=sizes)
    with pytest.raises(onnxexp.OnnxExporterError, match="right only where"):
        program(torch.randn(1, 3))


def filtered(x: Tensor) -> Tensor:
    return x[x > 0].squeeze() + 1


def test_an_axis_of_unknown_size_that_the_trace_keeps() -> None:
    with pytest.warns(UserWarning, match="squeeze keeps axis 0, as for the example, at File"):
        program = onnxexp.export(filtered, (torch.tensor([1.0, 2, -1]),), capture="trace", dynamic_shapes=({0: "n"},))
    x = torch.tensor([1.0, -1, 2, 3])
    torch.testing.assert_close(program(x), filtered(x))


def unsqueezed_in_place(x: Tensor) -> Tensor:
    y = x + 1
    before = y.size(0)
    y.unsqueeze_(0)
    return functional.interpolate(y, scale_factor=2.0) * before + y.size(0) * 10 + y.dim()


@pytest.mark.parametrize("capture", ["trace", "script"])
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
def test_sizes_after_a_change_in_place(capture: str, dynamic: tuple[dict[int, str]] | None) -> None:
    program = onnxexp.export(unsqueezed_in_place, (torch.randn(3, 4),), capture=capture, dynamic_shapes=dynamic, opset_version=13)
    for size in (3,) if dynamic is None else (1, 3, 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(program(x), unsqueezed_in_place(x))


def test_a_computed_size_of_one_is_a_restriction() -> None:
    def pairs(x: Tensor) -> Tensor:
        return x.unfold(0, 2, 2).squeeze() + 1

    with pytest.warns(UserWarning, match="squeeze removes axis 0, as for the example"):
        program = onnxexp.export(pairs, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},), capture="trace")
    assert program.model.metadata_props["onnxexp.restrictions"] == "n//2 == 1"
    x = torch.randn(2, 4)
    torch.testing.assert_close(program(x), pairs(x))
    with pytest.raises(onnxexp.OnnxExporterError, match="right only where n//2 == 1"):
        program(torch.randn(4, 4))


def returned_in_parts(x: Tensor) -> tuple[dict[str, Tensor], list[Tensor]]:
    return {"rows": (x * 2).squeeze(0)}, [torch.squeeze(x, (0, 1)), x.squeeze()]


def returned_before_a_write(x: Tensor) -> tuple[Tensor, Tensor]:
    x = x + 1
    y = x.squeeze(-1)
    x.add_(1)
    return y, x


def returned_pool(x: Tensor) -> Tensor:
    return functional.max_pool1d(x, 2).squeeze(-1)


def returned_copy(x: Tensor) -> Tensor:
    return x.squeeze(0)


def returned_selection(x: Tensor) -> Tensor:
    return x[x.sum(1) > 0].squeeze(0)


@pytest.mark.parametrize("opset", [9, 13, 20, 23])
@pytest.mark.parametrize("capture", ["export", "trace", "script"])
@pytest.mark.parametrize("model", [returned_in_parts, returned_before_a_write, returned_pool, returned_selection])
def test_a_result_that_is_only_returned_has_the_rank_of_the_call(model: Callable[..., Any], capture: str, opset: int) -> None:
    """The example has axes of size 1, or none; the checked calls have both."""
    for example in (torch.randn(1, 3), torch.randn(4, 2)):
        options: Any = {"dynamic_shapes": ({0: "a", 1: "b"},), "capture": capture, "opset_version": opset}
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "the exported model is right only where")
            program = onnxexp.export(model, (example,), **options)
        for shape in [(1, 3), (4, 2), (1, 2), (3, 1), (1, 1), (2, 3), *([(0, 2), (1, 0)] if opset > 13 else [])]:
            if model is returned_pool and (shape[1] < 2 or 0 in shape):
                continue
            x = torch.randn(shape)
            torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_a_returned_result_keeps_its_rank_where_no_size_is_one(capture: str) -> None:
    sizes = ({0: torch.export.Dim.DYNAMIC(min=2)},)
    program = onnxexp.export(returned_copy, (torch.randn(4, 3),), capture=capture, dynamic_shapes=sizes)
    shape = program.model.graph.outputs[0].shape
    assert shape is not None and len(shape) == 2


@pytest.mark.parametrize("capture", ["export", "trace", "script"])
def test_the_file_declares_the_rank_of_other_sizes(capture: str) -> None:
    """onnx's checker refuses an output without a shape; no pass drops the squeeze."""
    axes: Any = {"x": {0: "n"}, "y": {0: "m"}}
    program = onnxexp.export(
        returned_copy, (torch.randn(4, 3),), capture=capture, output_names=["y"], dynamic_axes=axes, debug=True
    )
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert str(program.model.graph.outputs[0].shape) == "[m,3]"
    for size in (1, 2):
        torch.testing.assert_close(program(torch.ones(size, 3)), torch.ones(size, 3).squeeze(0))


def broadcast(x: Tensor, y: Tensor) -> Tensor:
    return x + y.squeeze()


def broadcast_after_others(x: Tensor, y: Tensor) -> Tensor:
    z = y.squeeze() * 2 + torch.arange(4)
    return z.exp() * z + x


def both_squeezed(x: Tensor, y: Tensor) -> Tensor:
    return x.squeeze() + y.squeeze()


def with_itself(x: Tensor, y: Tensor) -> Tensor:
    z = y.squeeze()
    return z.exp() * z + x[0, 0, 0]


def joined(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x[0, 0], y.squeeze()])


def of_a_smaller_rank(x: Tensor, y: Tensor) -> Tensor:
    return y.squeeze() + x[0, 0, 0]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("model", [broadcast, broadcast_after_others])
def test_a_first_axis_that_broadcasts_needs_no_condition(model: Callable[..., Tensor], capture: str) -> None:
    """With or without an axis of size 1 in front, the sum has one shape."""
    args, axes = (torch.randn(1, 1, 5, 4), torch.randn(1, 1, 5, 4)), ({2: "t"}, {2: "t"})
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the exported model is right only where")
        program = onnxexp.export(model, args, dynamic_shapes=axes, capture=capture)
    for size in (1, 2, 7):
        args = (torch.randn(1, 1, size, 4), torch.randn(1, 1, size, 4))
        torch.testing.assert_close(program(*args), model(*args))


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("model", [joined, of_a_smaller_rank, both_squeezed, with_itself])
def test_a_first_axis_that_does_not_broadcast_needs_one(model: Callable[..., Tensor], capture: str) -> None:
    args, axes = (torch.randn(1, 1, 5, 4), torch.randn(1, 1, 5, 4)), ({2: "t"}, {2: "t"})
    with pytest.warns(UserWarning, match="right only where t != 1"):
        onnxexp.export(model, args, dynamic_shapes=axes, capture=capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_second_axis_does_not_broadcast_as_if_removed(capture: str) -> None:
    args, axes = (torch.randn(1, 3, 5, 4), torch.randn(3, 5, 4)), ({1: "b", 2: "t"}, {0: "b", 1: "t"})
    with pytest.warns(UserWarning, match="right only where t != 1") as found:
        onnxexp.export(broadcast, args, dynamic_shapes=axes, capture=capture)
    assert "b != 1" not in str(found[0].message)
