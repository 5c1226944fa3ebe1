"""Statements that reduce, sort, accumulate, multiply, join and create tensors."""

from __future__ import annotations

from .scope import Scope, at_least, floating, is_all, number

_FLOAT = (
    "{x}.mean({d})", "{x}.mean({d}, keepdim=True)", "{x}.var({d}, correction=0)", "{x}.std({d}, unbiased=False)", "{x}.mean()",
    "torch.logsumexp({x}, {d})", "{x}.norm(2, {d})", "{x}.softmax({d})", "{x}.log_softmax({d})",
    "torch.linalg.vector_norm({x}, 1, {d})", "{x}.nanmean({d})", "{x}.quantile(0.5, {d})", "F.normalize({x}, dim={d})",
    "F.layer_norm({x}, {x}.shape[-1:])", "{x}.norm()", "torch.var_mean({x}, {d}, correction=0)[1]", "{x}.logcumsumexp({d})",
    "F.softmin({x}, {d})", "torch.std_mean({x}, {d}, correction=0)[0]", "{x}.aminmax(dim={d}).min", "F.glu({x}, {d})",
    "F.cosine_similarity({x}, {x} + 1, {d})", "{x}.renorm(2, {d}, 1.0)", "{x}.nansum({d})",
)  # fmt: skip
_ANY = (
    "{x}.sum()", "{x}.sum({d})", "{x}.sum({d}, keepdim=True)", "{x}.amax({d})", "{x}.amin({d}, keepdim=True)",
    "{x}.max({d})[0]", "{x}.min({d}).values", "{x}.max()", "({x} > 0.1).any({d})", "({x} > 0.1).all()", "{x}.cumsum({d})",
    "{x}.cumprod({d}).clamp(-99, 99)", "{x}.argmax({d})", "{x}.prod({d}).clamp(-99, 99)", "{x}.sum({d}, dtype=torch.float64)",
    "{x}.sort({d})[0]", "{x}.sort({d}, descending=True).values", "{x}.topk(1, {d})[0]", "torch.count_nonzero({x}, {d})",
    "{x}.cummax({d})[0]", "{x}.median({d})[0]", "{x}.float().mean({d})", "{x}.argmin()", "{x}.sum(({d}, {e}))",
    "{x}.amax(({d}, {e}), keepdim=True)", "{x}.diff(dim={d})", "{x}.kthvalue(1, {d})[0]", "torch.unique({x})",
    "{x}.sum({d}).max()", "torch.trace({x})", "{x}.topk({x}.shape[{d}], {d}).values", "{x}.msort()", "{x}.median()",
    "torch.bincount({x}.flatten().long().abs())",
)  # fmt: skip
_BOOL = (
    "{x}.any()", "{x}.all({d})", "{x}.sum({d})", "{x}.any({d}, keepdim=True)", "{x}.sum()", "{x}.cumsum({d})",
    "{x}.float().mean()", "{x}.nonzero()",
)  # fmt: skip
_REARRANGED = (
    "{x}.flip({d})", "{x}.roll(1, {d})", "{x}.roll(-1)", "{x}.repeat_interleave(2, {d})", "torch.rot90({x}, 1, ({d}, {e}))",
    "{x}.tril()", "{x}.triu(1)", "{x}.tile(2)", "torch.kron({x}, {x})", "{x}.roll((1, -1), ({d}, {e}))", "{x}.fliplr()",
    "torch.diag_embed({x})", "{x}.repeat(2, {ones})", "{x}.repeat({ones}, 2)", "F.pad({x}, (1, 0))",
    "F.pad({x}, (0, 1, 1, -1), value=2)", "F.pad({x}, (-1, 1))", "torch.block_diag({x}, {x})",
    "{x}.roll({x}.shape[{d}] // 2, {d})", "{x}.T.flip(0)", "torch.cartesian_prod({x}.flatten(), {x}.flatten())",
    "{x}.diag()", "torch.broadcast_to({x}, (2, *{x}.shape))",
    "{x}.index_select({d}, torch.arange({x}.shape[{d}]))", "torch.searchsorted({x}.sort(-1)[0], {x})",
    "torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.0]))", "torch.vander({x}.flatten(), 3)", "{x}.rot90(2)",
)  # fmt: skip
_JOINED = (
    "torch.cat([{x}, {x}], {d})", "torch.cat([{x}, {y}], {d})", "torch.stack([{x}, {y}], {d})", "torch.stack([{x}, {x} + 1])",
    "torch.cat([{x}[:1], {y}, {x}[1:]])", "torch.hstack([{x}, {y}])", "torch.vstack([{x}, {y}])",
    "torch.cat([{x}, {x}.sum({d}, keepdim=True)], {d})", "torch.stack(torch.stack([{x}, {x} + 1]).unbind(), -1)",
    "torch.cat({x}.chunk(2, {d})[::-1], {d})", "torch.dstack([{x}, {y}])", "torch.cat([{x}, torch.zeros_like({y})], {d})",
    "torch.stack(torch.meshgrid({x}.flatten(), {x}.flatten(), indexing='ij'))", "torch.broadcast_tensors({x}, {y})[0]",
    "torch.cat([{x}.flatten(), {y}.flatten()])",
)  # fmt: skip
_MULTIPLIED = (
    "{x} @ {x}.mT", "torch.matmul({x}, {x}.transpose(-1, -2))", "torch.einsum('...i,...i->...', {x}, {y})",
    "torch.outer({x}.flatten(), {x}.flatten())", "{x} @ {x}.new_ones({x}.shape[-1])", "torch.einsum('...ij->...ji', {x})",
    "torch.tensordot({x}, {x}, 1)", "torch.cdist({x}, {x})", "{x}.flatten() @ {x}.flatten()",
    "torch.einsum('...i,...j->...ij', {x}, {y})", "F.linear({x}, {x}[0])", "torch.inner({x}, {x})", "torch.bmm({x}, {x}.mT)",
    "torch.addmm({x} @ {x}.T, {x}, {x}.T, alpha=0.5)", "torch.einsum('ii->i', {x})",
    "F.scaled_dot_product_attention({x}, {x}, {x})", "torch.baddbmm({x} @ {x}.mT, {x}, {x}.mT)",
    "torch.linalg.multi_dot([{x}, {x}.T, {x}])", "torch.cross({x}, {x} + 1, {d})", "torch.mv({x}, {x}[0])",
    "torch.einsum('...ij,...kj->...ik', {x}, {x})",
)  # fmt: skip
_CREATED = (
    "torch.zeros({x}.shape[{d}])", "torch.arange({x}.shape[{d}])", "torch.arange({x}.shape[{d}]) * 0.5",
    "torch.ones({x}.shape)", "torch.zeros_like({x})", "torch.full(({x}.shape[{d}], 2), 1.5)", "torch.linspace(0, 1, 5)",
    "torch.eye({x}.shape[{d}])", "{x}.new_ones({x}.shape[{d}], 1)", "torch.tensor([1, -2, 3])",
    "torch.arange(0, {x}.shape[{d}], 2)", "torch.arange({x}.shape[{d}] - 1, -1, -1)", "torch.tensor([[0.5], [2.0]])",
    "torch.ones_like({x}, dtype=torch.int32)", "{x}.new_full((2, {x}.shape[{d}]), 3)",
    "torch.arange(1, {x}.shape[{d}] + 1, dtype=torch.float32)", "{x}.new_tensor([1, 2])", "torch.tensor({x}.shape[{d}])",
    "torch.scalar_tensor(2.5)", "torch.empty_like({x}).fill_(2)", "torch.linspace(-1, 1, {x}.shape[{d}])",
    "torch.tril_indices(3, 3)", "torch.hann_window({x}.shape[{d}])", "torch.ones({x}.shape[{d}], {x}.shape[{e}]).tril()",
    "torch.logspace(0, 1, 3)", "torch.triu_indices({x}.shape[{d}], {x}.shape[{d}])[0]", "torch.tensor([{x}.shape[{d}], 2])",
)  # fmt: skip


def reduced(s: Scope) -> str:
    x = s.tensor(at_least(1), ragged=True)
    table = _FLOAT + _ANY if floating(s.values[x]) else _ANY if number(s.values[x]) else _BOOL
    return f"{s.new()} = {s.choice(table).format(x=x, d=s.dim(x), e=s.dim(x))}"


def rearranged(s: Scope) -> str:
    x = s.tensor(at_least(1))
    ones = ", ".join("1" * (len(s.shape(x)) - 1)) or "1"
    return f"{s.new()} = {s.choice(_REARRANGED).format(x=x, d=s.dim(x), e=s.dim(x), ones=ones)}"


def joined(s: Scope) -> str:
    x = s.tensor(at_least(1))
    y = s.tensor(lambda value: value.dim() == len(s.shape(x)) or s.chance(0.1))
    return f"{s.new()} = {s.choice(_JOINED).format(x=x, y=y, d=s.dim(x))}"


def multiplied(s: Scope) -> str:
    x = s.tensor(is_all(floating, at_least(1)) if s.chance(0.9) else at_least(1))
    return f"{s.new()} = {s.choice(_MULTIPLIED).format(x=x, y=s.fitting(s.shape(x), floating), d=s.dim(x))}"


def created(s: Scope) -> str:
    x = s.tensor(at_least(1))
    return f"{s.new()} = {s.choice(_CREATED).format(x=x, d=s.dim(x), e=s.dim(x))}"
