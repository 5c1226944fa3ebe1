"""torch.cond, while_loop, grad modes and decomposed programs at unseen sizes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch.utils.checkpoint import checkpoint

import onnxexp
from onnxexp.testing import Case, cases, check_case

ALL = (9, 11, 13, 20, 23)
pytest.importorskip("onnxexp_aten", reason="the operators are the aten plugin's")
torch.manual_seed(0)
X = torch.randn(3, 4)
POSITIVE, NEGATIVE = X.abs(), -X.abs()
ZERO = torch.tensor(0)


def case(fn, *inputs, dynamic=None, opsets=(9, 20), **options):
    """Build a case with a dynamic first axis of the first input."""
    return Case(fn, *(inputs or (X,)), dynamic={0: [0]} if dynamic is None else dynamic, opsets=opsets, **options)


def either(*inputs, **options):
    """Build cases for both sides of a branch: positive numbers, then negative ones."""
    return lambda fn: [case(fn, sample, *inputs, name=fn.__name__, **options) for sample in (POSITIVE, NEGATIVE)]


# cond


def plain(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2 - 1, (x,))


def by_size(x):
    return torch.cond(x.shape[0] > 3, lambda x: x + 1, lambda x: x * 2 - 1, (x,))


def nested(x):
    def inside(x):
        return torch.cond(x.max() > 1, lambda x: x + 1, lambda x: x - 1, (x,))

    return torch.cond(x.sum() > 0, inside, lambda x: x * 2, (x,))


def several(x):
    one, other = torch.cond(x.sum() > 0, lambda x: (x + 1, x.sum(0)), lambda x: (x * 2, x.mean(0)), (x,))
    return one * 2, other


def by_name(x):
    found = torch.cond(x.sum() > 0, lambda x: {"a": x + 1, "b": x * 3}, lambda x: {"a": x * 2, "b": -x}, (x,))
    return found["a"] + found["b"]


def constants(x):
    return torch.cond(x.sum() > 0, lambda x: torch.ones_like(x), lambda x: torch.zeros_like(x) + torch.full((4,), 3.0), (x,))


def with_ints(x):
    n = x.shape[0]
    return torch.cond(x.sum() > 0, lambda x: x * n, lambda x: x + n, (x,))


def closure(x):
    y = x * 3
    return torch.cond(x.sum() > 0, lambda: y + 1, lambda: y - 1, ())


def other_dtypes(x):
    return torch.cond(x.sum() > 0, lambda x: (x > 0, x.long()), lambda x: (x < 0, x.long() * 2), (x,))


def number(x):
    return x[:, :2] * torch.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x.mean(), (x,))


def condition_of_one_element(x):
    return torch.cond((x.sum() > 0).reshape(1), lambda x: x + 1, lambda x: x - 1, (x,))


def in_place(x):
    return torch.cond(x.sum() > 0, lambda x: x.clone().add_(1), lambda x: x.clone().mul_(2), (x,))


def two(x):
    y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
    return y + torch.cond(y.mean() > 1, lambda x: x * 2, lambda x: x / 2, (y,))


class Branches(nn.Module):
    """Parameters, buffers and constants of the model, used in the branches alone."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("offset", torch.ones(4))
        self.scale = torch.tensor([1.0, 2, 3, 4])

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.one(x) * self.scale, lambda x: self.other(x).relu() + self.offset, (x,))


CONDS = (
    plain,
    nested,
    several,
    by_name,
    constants,
    with_ints,
    closure,
    other_dtypes,
    number,
    condition_of_one_element,
    in_place,
    two,
)


@cases(
    *(sample for fn in CONDS for sample in either()(fn)),
    case(by_size),
    case(several, name="every opset", opsets=ALL),
    case(two, name="every opset", opsets=ALL),
    case(Branches(), POSITIVE),
    case(Branches(), NEGATIVE),
    case(lambda x, p: torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,)), X, torch.tensor(True), name="given true"),
    case(lambda x, p: torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,)), X, torch.tensor(False), name="given false"),
)
def test_cond(check):
    check()


@cases(case(lambda x: torch.cond(True, lambda x: x + 1, lambda x: x - 1, (x,)), emits={"Add"}, opsets=(20,), name="known"))
def test_condition_that_is_known_takes_its_branch(check):
    check()


def rows(x):
    return torch.cond(x.sum() > 0, lambda x: x[:2].clone(), lambda x: x.clone(), (x,))


def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: x[x > 0], lambda x: x.reshape(-1).clone(), (x,))


@cases(*(sample for fn in (rows, chosen) for sample in either(opsets=(11, 13, 20, 23))(fn)))
def test_branches_of_other_sizes(check):
    check()


def test_branches_of_other_sizes_need_opset_11():
    with pytest.raises(onnxexp.OpsetError, match=r"float32\[2, 4\] in one branch and float32\[3, 4\] in the other") as caught:
        onnxexp.export(rows, (X,), opset_version=9)
    assert caught.value.first_opset == 11


# while_loop


def counted(x):
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.1 + i), (ZERO, x))


def counted_by_number(x):
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.1), (0, x))[1]


def counted_in_int32(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0, dtype=torch.int32), x))


def until_data_says_so(x):
    return while_loop(lambda x: x.abs().sum() < 100, lambda x: (x * 1.5 + 0.1,), (x,))


def as_often_as_rows(x):
    return while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x + 1), (0, x))[1]


def exchanged(x):
    return while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b.clone(), a + b), (ZERO, x, x * 2))


def written_afterwards(x):
    """Write into the result of a loop, a new tensor even without iterations."""
    doubled = x * 2
    (halved,) = while_loop(lambda x: x.abs().sum() > 100, lambda x: (x / 2,), (doubled,))
    halved.add_(1)
    return doubled, halved


def never(x):
    return while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x * 2), (ZERO, x))


def made_anew(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.zeros_like(x) + torch.tensor([1.0, 2, 3, 4]) * i), (ZERO, x))


def numbers(x):
    return while_loop(lambda s, x: s < 3.0, lambda s, x: (s + 0.5, x * s), (torch.tensor(0.0), x))


def loop_in_loop(x):
    def body(i, x):
        _, y = while_loop(lambda j, y: j < 2, lambda j, y: (j + 1, y + i), (ZERO, x))
        return i + 1, y * 0.5

    return while_loop(lambda i, x: i < 3, body, (ZERO, x))


def cond_in_loop(x):
    def body(i, x):
        return i + 1, torch.cond(x.sum() > 0, lambda x: x - 1, lambda x: x + 2, (x,))

    return while_loop(lambda i, x: i < 4, body, (ZERO, x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.cell, self.out = nn.GRUCell(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return while_loop(
            lambda i, x, h: i < 4, lambda i, x, h: (i + 1, self.out(h), self.cell(x, h)), (ZERO, x, torch.zeros_like(x))
        )


LOOPS = (
    counted,
    counted_by_number,
    counted_in_int32,
    until_data_says_so,
    as_often_as_rows,
    exchanged,
    written_afterwards,
    never,
    made_anew,
    numbers,
    loop_in_loop,
    cond_in_loop,
)


@cases(
    *(case(fn) for fn in LOOPS),
    case(Decoder(), opsets=ALL),
    case(loop_in_loop, name="every opset", opsets=ALL),
    case(
        lambda x, n: while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (ZERO, x)),
        X,
        torch.tensor(4),
        name="as often as asked",
    ),
    case(lambda x, n: while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (ZERO, x)), X, ZERO, name="not asked"),
)
def test_while_loop(check):
    check()


# regions of another grad mode


class Regions(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(4, 4)

    @torch.no_grad()
    def decorated(self, x):
        return self.linear(x)

    def forward(self, x):
        y = self.decorated(x)
        with torch.no_grad():
            z = x * 2
            with torch.enable_grad():
                z = z + y
        with torch.inference_mode():
            w = z * 3
        return y, z, w + 1


def branch_in_region(x):
    with torch.no_grad():
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))
    return y * 2


def recomputed(x):
    return checkpoint(lambda x: x.sin() * 2, x, use_reentrant=True) + checkpoint(lambda x: x.cos(), x, use_reentrant=False)


@cases(*(case(fn) for fn in (Regions(), branch_in_region, recomputed)))
def test_regions(check):
    check()


@pytest.mark.parametrize("outside", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_grad_mode_of_the_caller_makes_no_difference(outside):
    expected = onnxexp.export(Regions(), (X,)).model_proto.SerializeToString()
    with outside():
        assert onnxexp.export(Regions(), (X,)).model_proto.SerializeToString() == expected


# programs that torch has decomposed already


class Counting(nn.Module):
    """Writes into a buffer and into its input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(x.sum(0))
        x.mul_(2)
        return x + self.total


def test_decomposed_programs_give_what_the_model_returns():
    program = torch.export.export(Counting(), (X.clone(),), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}})
    with pytest.warns(UserWarning, match="writes into total, x"):
        exported = onnxexp.export(program.run_decompositions({}), (X.clone(),))
    assert len(exported.model.graph.outputs) == 1
    for rows_ in (3, 5):
        sample = torch.randn(rows_, 4)
        torch.testing.assert_close(exported(sample.clone()), Counting()(sample.clone()))


def test_what_has_no_counterpart_is_named():
    program = torch.export.export(Counting(), (X.clone(),))
    node = next(node for node in program.graph.nodes if node.target is torch.ops.aten.add.Tensor)
    node.target = torch.ops.higher_order.flex_attention
    with pytest.raises(
        onnxexp.CaptureError, match=r"torch's flex_attention cannot be a node of the graph(.|\n)*test_higher_order.py"
    ):
        onnxexp.export(program)


# what the nodes say of themselves


def test_nodes_of_control_flow_have_their_place():
    program = check_case(case(cond_in_loop), 20)
    nodes = [*program.model.graph.all_nodes()]
    assert {"Loop", "If"} <= {node.op_type for node in nodes}
    assert all(node.metadata_props["onnxexp.source"].startswith("test_higher_order.py:") for node in nodes)


@pytest.mark.parametrize("model", [Branches(), counted])
def test_verify_runs_the_original(model):
    """Verification calls the original in a dispatch mode that passes these operators."""
    try:
        onnxexp.export(model, (X,), verify=True).verify((NEGATIVE,))
    finally:
        torch._dynamo.reset()  # torch.cond outside of an export leaves compiled code that breaks the next one of a function
