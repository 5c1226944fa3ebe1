"""Operators called by name: aliases, copies, and overloads that are seldom used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from onnxexp.testing import Case, cases
from tests.torch_versions import RELEASE

torch.manual_seed(0)

X = torch.randn(2, 3, 4)
Y = torch.randn(2, 3, 4)
M = torch.randn(3, 4)
UNIT = torch.rand(3, 4) * 0.8 + 0.1
I = torch.randint(-9, 9, (3, 4))  # noqa: E741
J = torch.randint(0, 4, (3, 4))
INDEX = torch.tensor([1, 0, 2])
IMAGE = torch.randn(1, 2, 5, 6)
VOLUME = torch.randn(1, 2, 3, 4, 5)
B = I > 0
DEFINITE = M @ M.T + torch.eye(3)


def halves(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.bfloat16)


def same(result: Any) -> Any:
    return result


def size_only(result: Any) -> Any:
    """Replace a random or uninitialised result by zeros of its shape and dtype."""
    return pytree.tree_map_only(torch.Tensor, lambda x: ((x.float() * 0).nan_to_num()).to(x.dtype), result)


def call(
    name: str,
    *args: Any,
    after: Callable[[Any], Any] = same,
    opsets: tuple[int, ...] = (9, 20),
    xfail: str = "",
    **kwargs: Any,
) -> Case:
    """Build a case that calls an operator by name, with the tensors as inputs."""
    packet, _, overload = name.partition(".")
    namespace = torch.ops.prims if packet == "convert_element_type" else torch.ops.aten
    op = getattr(getattr(namespace, packet), overload or "default")
    leaves, spec = pytree.tree_flatten(args)

    def fn(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        values = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        return after(op(*pytree.tree_unflatten(values, spec), **kwargs))

    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return Case(fn, *tensors, opsets=opsets, rtol=1e-4, atol=1e-5, xfail=xfail, name=name)


UNARY = [
    *("absolute", "alias_copy", "angle", "arcsinh", "arctan", "detach_copy", "fix", "lift", "negative", "resolve_conj"),
    *("resolve_neg", "special_erf", "special_erfc", "special_exp2", "special_expit", "special_expm1", "special_sinc"),
    *("squeeze_copy", "atleast_3d", "_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half"),
    *("_cast_Int", "_cast_Long", "_cast_Short", "log_sigmoid_forward"),
]


@cases(*(call(name, UNIT * 3 if name == "_cast_Byte" else M) for name in UNARY))
def test_unary(check):
    check()


@cases(
    *(call(name, UNIT) for name in ("arccos", "arcsin", "arctanh", "special_log1p", "special_logit")),
    call("arccosh", UNIT + 1),
    call("arctan2", M, UNIT),
    call("frobenius_norm.dim", M, [1]),
    call("norm.Scalar", M, 2),
    call("norm.ScalarOpt_dim", M, 2, [1]),
    call("norm.ScalarOpt_dtype", M, 2, dtype=torch.float64),
    call("norm.ScalarOpt_dim_dtype", M, 1, [0], True, dtype=torch.float64),
    call("std_mean", M),
    call("var_mean", M),
    call("special_logsumexp", M, [1]),
    call("special_softmax", M, 1),
    call("special_log_softmax", M, 1),
    call("_softmax", M, 1, False),
    call("_log_softmax", M, 1, False),
    call("cdist", M, M + UNIT),
    call("_cdist_forward", M, M + UNIT, 2.0, None),
    call("_unique", J, opsets=(11, 20)),
    call("repeat_interleave.Tensor", torch.tensor([1, 3, 0, 2]), opsets=(11, 20)),
)
def test_math(check):
    check()


DEGREES = torch.tensor([0.0, 1, 2, 5])
PLACES = torch.linspace(-1.5, 1.5, 7)
OF_SCALARS = [f"chebyshev_polynomial_{kind}" for kind in "tuvw"]
OF_SCALARS += [f"shifted_{name}" for name in OF_SCALARS]
OF_SCALARS += ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]


@cases(
    *(call(name, UNIT) for name in ("i0", "special_digamma", "special_erfinv", "special_gammaln", "special_psi")),
    *(call(name, UNIT * 4, UNIT.flip(0) * 4) for name in ("special_gammainc", "special_gammaincc")),
    call("special_multigammaln", UNIT + 2, 2),
    call("special_polygamma", 2, UNIT + 1),
    call("special_zeta.self_scalar", 2.5, UNIT + 1),
    *(call(f"special_{name}.x_scalar", 0.3, DEGREES) for name in OF_SCALARS),
    *(call(f"special_{name}.n_scalar", PLACES, 3) for name in OF_SCALARS),
    *(call(name, DEFINITE) for name in ("cholesky",) if hasattr(torch.ops.aten, name)),  # torch 2.14 removed it
    *(call(name, DEFINITE) for name in ("linalg_cholesky_ex", "linalg_lu_factor_ex", "_linalg_slogdet")),
    *(call(name, DEFINITE, M) for name in ("linalg_solve_ex", "_linalg_solve_ex")),
    call("_linalg_svd", DEFINITE, after=lambda result: result[1]),
    call("_linalg_eigh", DEFINITE, after=lambda result: result[0]),
    call("linalg_norm.ord_str", M, "fro"),
    call("diagflat", M),
    call("_linalg_det", DEFINITE, after=lambda parts: parts[0]),
    call("conj_physical", M),
    call("svd", M, after=lambda parts: parts[1]),
    call("_pdist_forward", M, 2.0),
    call("logspace.Scalar_Tensor", 0.0, torch.tensor(1.0), 5),
    call("empty.memory_format", [3, 4], after=size_only),
    call("linalg_inv_ex", DEFINITE),
)
def test_special_functions_and_factorizations(check):
    check()


@cases(
    call("random", X, after=size_only),
    call("random.from", I, 2, 9, after=size_only),
    call("random.to", I, 9, after=size_only),
    call("poisson", UNIT, after=size_only),
    call("binomial", UNIT * 0 + 3, UNIT, after=size_only),
    call("_standard_gamma", UNIT + 1, after=size_only),
    call("_sample_dirichlet", UNIT + 1, after=size_only),
)
def test_draws(check):
    """Draws have torch's sizes and dtypes; test_random.py tests their distributions."""
    check()


@cases(
    *(
        call(f"{name}.{kind}", M, other)
        for name in (
            "greater",
            "greater_equal",
            "less",
            "less_equal",
            "not_equal",
            "multiply",
            "subtract",
            "divide",
            "true_divide",
        )
        for kind, other in (("Tensor", Y[0]), ("Scalar", 0.5))
    ),
    *(call(f"{name}.Scalar", M, 0.5) for name in ("mul", "sub", "div", "floor_divide")),
    call("divide.Tensor_mode", M, UNIT, rounding_mode="floor"),
    call("divide.Scalar_mode", M, 0.5, rounding_mode="trunc"),
    call("div.Scalar_mode", M, 0.5, rounding_mode="floor"),
    call("float_power.Scalar", 2.0, M),
    call("remainder.Scalar_Tensor", 7, J + 1),
    call("clip", M, -0.5, 0.5),
    call("clip.Tensor", M, -UNIT, UNIT),
    call("to.other", M, I),
    *(
        call(f"bitwise_{name}.{kind}", *args, opsets=(18, 20))
        for name in ("and", "or", "xor")
        for kind, args in (("Tensor", (I, J)), ("Scalar", (I, 5)), ("Scalar_Tensor", (5, I)))
    ),
    call("bitwise_and.Tensor", B, ~B),
    call("__xor__.Scalar", I, 3, opsets=(18,)),
    call("bitwise_left_shift.Tensor_Scalar", I, 2),
    call("bitwise_left_shift.Scalar_Tensor", 3, J),
    call("bitwise_right_shift.Tensor", I, J),
    call("bitwise_right_shift.Scalar_Tensor", 99, J),
)
def test_two_operands(check):
    check()


@cases(
    call("adjoint", X),
    call("matrix_H", M),
    call("swapdims", X, 0, 2),
    call("diagonal_copy", X, 1, 0, 2),
    call("transpose_copy.int", X, 0, 2),
    call("permute_copy", X, [2, 0, 1]),
    call("t_copy", M),
    call("expand_copy", M, [2, 3, 4]),
    call("unsqueeze_copy", M, 1),
    call("squeeze_copy.dim", IMAGE, 0),
    call("squeeze_copy.dims", IMAGE, [0, 1]),
    call("view_as", X, torch.randn(6, 4)),
    call("view_copy", X, [6, 4]),
    call("view_copy.dtype", M, torch.float32),
    call("_unsafe_view", X, [6, 4]),
    call("_reshape_alias", X, [6, 4], [4, 1]),
    call("_reshape_alias_copy", X, [6, 4], [4, 1]),
    call("as_strided_copy", X, [2, 2], [4, 1], 1),
    call("narrow_copy", X, 1, 1, 2),
    call("unfold_copy", X, 2, 2, 1),
    call("unbind_copy.int", X, 1),
    call("split.sizes", X, [1, 2], 1),
    call("split_copy.Tensor", X, 2, 1),
    call("split_with_sizes_copy", X, [1, 2], 1),
    call("unsafe_split.Tensor", X, 2, 1),
    call("unsafe_split_with_sizes", X, [1, 2], 1),
    call("unsafe_chunk", X, 2, 1),
    call("native_channel_shuffle", torch.randn(1, 4, 3, 3), 2),
    call("atleast_1d.Sequence", [torch.tensor(2.0), M]),
    call("atleast_2d.Sequence", [torch.tensor(2.0), M]),
    call("concat", [M, M], 1),
    call("concatenate", [M, M], 1),
    call("row_stack", [M, M]),
    call("copy", M, UNIT),
    call("convert_element_type", M, torch.float64),
    call("_local_scalar_dense", M[0, 0], after=lambda number: torch.ones(2) * number),
)
def test_shapes(check):
    check()


@cases(
    call("_unsafe_index.Tensor", M, [None, INDEX]),
    call("_unsafe_index_put", M, [INDEX], UNIT, opsets=(11, 20)),
    call("_index_put_impl", M, [INDEX], UNIT, opsets=(11, 20)),
    call("index_fill.int_Tensor", M, 0, INDEX[:2], torch.tensor(7.0)),
    call("scatter.reduce", M, 1, J[:, :2], UNIT, reduce="add", opsets=(16, 20)),
    call("ger", M[0], M[1]),
    call("linalg_matmul", M, M.T),
    call("chain_matmul", [M, M.T, M]),
    # torch traces it for bfloat16 only, of which ONNX Runtime has no products on the CPU: the checker has to do.
    call("_grouped_mm", halves(3, 8, 8), halves(3, 8, 16), opsets=(27,)),
    call("_grouped_mm", halves(7, 8), halves(3, 8, 16), torch.tensor([2, 5, 7], dtype=torch.int32), opsets=(27,)),
)
def test_indices_and_products(check):
    check()


@cases(
    call("_adaptive_avg_pool2d", IMAGE, [1, 1]),
    call("_adaptive_avg_pool3d", VOLUME, [1, 1, 1]),
    call("max_pool1d", X, [2]),
    call("_convolution", IMAGE, torch.randn(3, 2, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, *[False] * 4),
    call("_convolution.deprecated", IMAGE, torch.randn(3, 2, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, *[False] * 3),
    call("conv3d.padding", VOLUME, torch.randn(3, 2, 1, 2, 3), None, [1, 1, 1], "same"),
    call("_prelu_kernel", M, torch.full((4,), 0.25)),
    call("_batch_norm_no_update", IMAGE, UNIT[0, :2], UNIT[1, :2], M[0, :2], UNIT[2, :2], 0.1, 1e-5, after=lambda outs: outs[0]),
    call("_embedding_bag", M, INDEX, torch.tensor([0, 2]), after=lambda outs: outs[0], opsets=(11, 20)),
    call("_embedding_bag_forward_only", M, INDEX, torch.tensor([0, 2]), after=lambda outs: outs[0], opsets=(11, 20)),
    call("grid_sampler_2d", IMAGE, torch.rand(1, 3, 3, 2), 0, 0, False, opsets=(16, 20)),
    call("grid_sampler_3d", VOLUME, torch.rand(1, 2, 3, 3, 3), 0, 0, False, opsets=(20,)),
    call("grid_sampler_3d", VOLUME, torch.rand(1, 2, 3, 3, 3), 0, 0, False, opsets=(9, 16), xfail="no volumes before opset 20"),
    *[call("_upsample_lanczos2d_aa", IMAGE, [3, 4], False, opsets=(18,)) for _ in range(RELEASE > (2, 11))],  # new in 2.12
    call("_pad_circular", IMAGE, [1, 1, 2, 0]),
    *(call("_pad_enum", X, [1, 1], mode) for mode in range(4)),
    call("constant_pad_nd", IMAGE, [1, 0, 2, 1], 3.0),
    call("reflection_pad1d", X, [1, 2]),
    call("reflection_pad2d", IMAGE, [1, 2, 0, 1]),
    call("reflection_pad3d", VOLUME, [1, 2, 0, 1, 1, 1]),
    call("replication_pad1d", X, [1, 2]),
    call("replication_pad2d", IMAGE, [1, 2, 0, 1]),
    call("replication_pad3d", VOLUME, [1, 2, 0, 1, 1, 1]),
    call("native_dropout", M, 0.5, False),
    call("native_dropout_backward", M, UNIT > 0.5, 2.0),
    call("native_dropout_backward", M.half(), UNIT > 0.5, 2.0),
    *(
        call(f"_{name}_backward_data", X, torch.softmax(Y, 1), dim, X.dtype)
        for name in ("softmax", "log_softmax")
        for dim in (1, -1)
    ),
    call("_softmax_backward_data", X[0, 0, 0], Y[0, 0, 0], 0, X.dtype),
    call(
        "_native_batch_norm_legit", IMAGE, None, None, torch.zeros(2), torch.ones(2), False, 0.1, 1e-5, after=lambda outs: outs[0]
    ),
    call("rrelu_with_noise_functional", M, torch.ones(3, 4), 0.1, 0.3, False),
)
@pytest.mark.filterwarnings("ignore:the forward writes into")
def test_layers(check):
    check()


@cases(
    call("range", 0, 5),
    call("range.step", 1, 9, 2),
    call("triu_indices", 3, 4),
    call("empty_permuted", [2, 3], [1, 0], after=size_only),
    call("empty_strided", [2, 3], [3, 1], after=size_only),
    call("new_empty", M, [2, 3], after=size_only),
    call("new_empty_strided", M, [2, 3], [3, 1], after=size_only),
    call("bernoulli.Tensor", M, UNIT, after=size_only, opsets=(15, 20)),
    *(call(name, M, after=size_only) for name in ("cauchy", "exponential", "log_normal")),
    call("geometric", M, 0.4, after=size_only),
    call("uniform", M, -1.0, 2.0, after=size_only),
    call("normal_functional", M, after=size_only),
    call("normal.Tensor_Tensor", M, UNIT, after=size_only),
    call("multinomial", UNIT, 2, True, after=size_only),
    call("randint_like", M, 5, after=size_only),
    call("randint_like.Tensor", M, torch.tensor(5), after=size_only),
    call("randint_like.generator", M, 5, generator=None, after=size_only),
    call("randint_like.low_generator_dtype", M, 2, 5, generator=None, after=size_only),
    call("randint.generator", 5, [2, 3], generator=None, after=size_only),
    call("randint.low_generator", 2, 5, [2, 3], generator=None, after=size_only),
    call("rand.generator", [2, 3], generator=None, after=size_only),
    call("randn.generator", [2, 3], generator=None, after=size_only),
    call("randperm.generator", 5, generator=None, after=size_only, opsets=(11, 20)),
)
def test_made_tensors(check):
    check()


def cond(asked: Callable[[int], Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function with a branch that depends on a size."""
    return lambda x: torch.cond(asked(x.shape[0]), lambda x: x + 1, lambda x: x - 1, [x])


NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "le": cond(lambda n: n <= 3),
    "ge": cond(lambda n: n >= 4),
    "eq": cond(lambda n: n == 4),
    "and": cond(lambda n: (n >= 4) & (n <= 8)),
    "or": cond(lambda n: (n >= 4) | (n <= 2)),
    "not": cond(lambda n: torch.sym_not(n >= 4)),
    "neg": lambda x: x * -(x.shape[0] / 2),
    "round": lambda x: x + round(x.shape[0] / 3),
    "sum": lambda x: x + torch.sym_sum([x.shape[0], x.shape[0], 3]),
    "ite": lambda x: x + torch.sym_ite(x.shape[0] >= 4, x.shape[0], x.shape[0] * 2),
}


@cases(
    *(Case(fn, M, dynamic={0: [0]}, opsets=(9, 20), name=name) for name, fn in NUMBERS.items()),
)
def test_numbers(check):
    check()
