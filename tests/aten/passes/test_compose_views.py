"""passes/compose_views.py: chains of views, and operators that absorb views."""

from __future__ import annotations

import onnx_ir as ir
import pytest
import torch

import onnxexp
from onnxexp_aten.passes.compose_views import ComposeViews
from tests.aten.passes.onnx_text import operators_after


def composed(text: str, opset: int = 20) -> str:
    return " ".join(operators_after(text, ComposeViews(), opset))


X, Y = "float[N,M,4] x", "float[N,M,4] y"
MERGED = {
    "two transposes": (
        f"g ({X}) => (float[M,4,N] y)"
        f"{{ a = Transpose<perm=[1,0,2]>(x) y = Transpose<perm=[0,2,1]>(a) }}",
        "Transpose",
    ),
    "there and back": (
        f"g ({X}) => ({Y})"
        f"{{ a = Transpose<perm=[1,0,2]>(x) b = Transpose<perm=[1,0,2]>(a) y = Relu(b) }}",
        "Relu",
    ),
    "an input returned": (f"g ({X}) => ({Y}) {{ a = Transpose<perm=[1,0,2]>(x) y = Transpose<perm=[1,0,2]>(a) }}", "Identity"),
    "two reshapes": (
        f"g ({X}) => (float[N,M,2,2] y) <int64[4] s = {{0,0,2,2}}, int64[3] t = {{0,0,4}}>"
        "{ a = Relu(x) b = Reshape(a, s) c = Reshape(b, t) d = Tanh(c) y = Reshape(d, s) }",
        "Relu Tanh Reshape",
    ),
    "unsqueeze and squeeze": (
        f"g ({X}) => ({Y}) <int64[1] s = {{1}}> {{ a = Unsqueeze(x, s) b = Squeeze(a, s) y = Relu(b) }}",
        "Relu",
    ),
    "two unsqueezes": (
        f"g ({X}) => (float[N,1,M,1,4] y) <int64[1] s = {{1}}, int64[1] t = {{3}}> {{ a = Unsqueeze(x, s) y = Unsqueeze(a, t) }}",
        "Unsqueeze",
    ),
    "squeeze through a transpose": (
        f"g ({X}) => (float[M,N,4] y) <int64[1] s = {{0}}, int64[1] t = {{1}}>"
        "{ a = Unsqueeze(x, s) b = Transpose<perm=[2,0,1,3]>(a) y = Squeeze(b, t) }",
        "Transpose",
    ),
    "two slices": (
        "g (float[6,M,4] x) => (float[5,M,3] y) <int64[1] o = {1}, int64[1] e = {9}, int64[1] s = {0}, int64[1] t = {2}>"
        "{ a = Slice(x, o, e, s) y = Slice(a, o, e, t) }",
        "Slice",
    ),
    "heads joined again": (
        "g (float[N,M,4] x) => (float[N,M,4] y) <int64[4] s = {0,0,2,2}, int64[3] t = {0,0,4}>"
        "{ a = Reshape(x, s) b = Transpose<perm=[0,2,1,3]>(a) c = Transpose<perm=[0,2,1,3]>(b) d = Reshape(c, t) y = Relu(d) }",
        "Relu",
    ),
    "rows transposed before a product": (
        "g (float[N,M,3] x) => (float[N,M,2] y) <float[3,2] w = {1,2,3,4,5,6}, float[2] b = {7,8}>"
        "{ a = Transpose<perm=[1,0,2]>(x) c = MatMul(a, w) d = Add(c, b) y = Transpose<perm=[1,0,2]>(d) }",
        "MatMul Add",
    ),
    "a transposed operand": (
        "g (float[3,M] x) => (float[M,2] y) <float[3,2] w = {1,2,3,4,5,6}, float[2] b = {7,8}>"
        "{ a = Transpose<perm=[1,0]>(x) y = Gemm(a, w, b) }",
        "Gemm",
    ),
    "rows flattened for a product": (
        "g (float[2,5,3] x) => (float[2,5,2] y)"
        " <float[3,2] w = {1,2,3,4,5,6}, float[2] b = {7,8}, int64[2] s = {-1,3}, int64[3] t = {2,5,2}>"
        "{ a = Reshape(x, s) c = Gemm(a, w, b) y = Reshape(c, t) }",
        "MatMul Add",
    ),
    "parts selected": (
        "g (float[N,M,6] x) => (float[N,M,2] y) <int64[4] s = {0,0,3,2}, int64 i = {0}, int64 j = {1}, int64 k = {2}>"
        "{ a = Reshape(x, s) b = Gather<axis=2>(a, i) c = Gather<axis=2>(a, j)"
        " d = Gather<axis=2>(a, k) e = Sub(b, c) y = Sub(e, d) }",
        "Split Sub Sub",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MERGED)
def test_views_are_merged(name: str) -> None:
    text, expected = MERGED[name]
    assert composed(text) == expected


KEPT = {
    "another use of the joined heads": (
        "g (float[2,6] x) => (float[6,2] y, float[2,6] z) <int64[3] s = {2,2,3}, int64[2] t = {2,6}>"
        "{ a = Reshape(x, s) b = Relu(a) c = Reshape(b, t) y = Transpose<perm=[1,0]>(c) z = Tanh(c) }",
        "Reshape Relu Reshape Transpose Tanh",
    ),
    "an intermediate output": (
        f"g ({X}) => (float[M,N,4] a, {Y}) {{ a = Transpose<perm=[1,0,2]>(x) b = Transpose<perm=[1,0,2]>(a) y = Relu(b) }}",
        "Transpose Relu",
    ),
    "another use of the transposed rows": (
        "g (float[N,M,3] x) => (float[M,N,2] y, float[M,N,3] z) <float[3,2] w = {1,2,3,4,5,6}>"
        "{ a = Transpose<perm=[1,0,2]>(x) y = MatMul(a, w) z = Relu(a) }",
        "Transpose MatMul Relu",
    ),
    "another use of the parts": (
        "g (float[N,M,6] x) => (float[N,M,2] y, float[N,M,3,2] z) <int64[4] s = {0,0,3,2}, int64 i = {1}>"
        "{ a = Reshape(x, s) y = Gather<axis=2>(a, i) z = Relu(a) }",
        "Reshape Gather Relu",
    ),
    "a product that is an output": (
        "g (float[2,5,3] x) => (float[10,2] c, float[2,5,2] y) "
        "<float[3,2] w = {1,2,3,4,5,6}, float[2] b = {7,8}, int64[2] s = {-1,3}, int64[3] t = {2,5,2}>"
        "{ a = Reshape(x, s) c = Gemm(a, w, b) y = Reshape(c, t) }",
        "Reshape Gemm Reshape",
    ),
    "slices of one axis": (
        "g (float[6,M] x) => (float[4,M] y) <int64[1] o = {1}, int64[1] e = {9}, int64[1] s = {0}>"
        "{ a = Slice(x, o, e, s) y = Slice(a, o, e, s) }",
        "Slice Slice",
    ),
    "a Reshape that keeps 0": (
        "g (float[0,4] x) => (float[0,2] y) <int64[2] s = {4,0}, int64[2] t = {0,2}>"
        "{ a = Reshape<allowzero=1>(x, s) y = Reshape<allowzero=1>(a, t) }",
        "Reshape Reshape",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_something_else_reads_stays(name: str) -> None:
    text, expected = KEPT[name]
    assert composed(text) == expected


def test_views_in_the_body_of_an_if() -> None:
    """A branch returns a value of its own, not one of the outer graph."""
    text = f"""g ({X}, bool c) => ({Y}) {{
        o = Transpose<perm=[1,0,2]>(x)
        y = If (c) <then_branch = t () => (float[N,M,4] p) {{ p = Transpose<perm=[1,0,2]>(o) }},
                    else_branch = e () => (float[N,M,4] q) {{
                        r = Transpose<perm=[1,0,2]>(o) s = Transpose<perm=[1,0,2]>(r)
                        u = Relu(s) q = Transpose<perm=[1,0,2]>(u) }}>
    }}"""
    bodies: list[str] = []

    def run(model: ir.Model) -> None:
        ComposeViews()(model)
        node = next(node for node in model.graph if node.op_type == "If")
        bodies.extend(" ".join(inner.op_type for inner in each.as_graph()) for each in node.attributes.values())

    assert operators_after(text, run) == ["If"]
    assert bodies == ["Identity", "Transpose Relu Transpose"]


def test_old_opsets_take_lists_as_attributes() -> None:
    text = (
        "g (float[2,5,6] x) => (float[5,2,2,1,1] y) <int64[4] s = {2,5,3,2}, int64 i = {0}, int64 j = {2}>"
        "{ a = Reshape(x, s) b = Gather<axis=2>(a, i) c = Gather<axis=2>(a, j) d = Sub(b, c)"
        "  e = Unsqueeze<axes=[3]>(d) f = Unsqueeze<axes=[4]>(e) y = Transpose<perm=[1,0,2,3,4]>(f) }"
    )
    assert composed(text, 11) == "Split Sub Unsqueeze Transpose"


def test_new_nodes_have_the_source_line_of_the_node_they_replace() -> None:
    def joined(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1).flatten(1).unflatten(1, (2, 2)).sigmoid()

    program = onnxexp.export(joined, (torch.randn(4, 3),))
    assert all("test_compose_views.py" in node.metadata_props["onnxexp.source"] for node in program.model.graph)
    assert program.verify().ok


def test_gather_of_a_whole_axis_is_a_view() -> None:
    def rows(x: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(x.shape[0])[:, None], torch.arange(2)] + 1

    program = onnxexp.export(rows, (torch.randn(3, 4),), dynamic_axes={"x": {0: "rows"}})
    assert [node.op_type for node in program.model.graph] == ["Gather", "Add"]
    assert program.verify().ok


def test_weight_of_flattened_rows_is_stored_once_under_its_name() -> None:
    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x.flatten(0, 1)).unflatten(0, (x.shape[0], -1))

    program = onnxexp.export(Flat(), (torch.randn(4, 5, 3),), dynamic_axes={"x": {0: "batch"}})
    assert [node.op_type for node in program.model.graph] == ["MatMul", "Add"]
    assert {*program.model.graph.initializers} == {"linear.weight", "linear.bias"}
    assert program.verify().ok


def test_skipped_pass_leaves_the_views() -> None:
    def back(x: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1).transpose(0, 1) + 1

    kept = onnxexp.export(back, (torch.randn(4, 3),), skip_passes=["aten/compose-views"])
    assert [node.op_type for node in kept.model.graph] == ["Transpose", "Transpose", "Add"]
    assert kept.verify().ok
