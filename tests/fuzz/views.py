"""Statements that make views, and that write into tensors and through views."""

from __future__ import annotations

from .scope import Scope, Unfit, at_least, boolean, number


def _bound(s: Scope, x: str, dim: int) -> str:
    """Return a bound of a slice."""
    size = s.shape(x)[dim]
    forms = [
        "", "1", "-1", str(s.integer(-size, size)), f"{x}.shape[{dim}] - 1", f"{x}.shape[{dim}] // 2", "2",
        f"-({x}.shape[{dim}] // 2)",
    ]  # fmt: skip
    if s.chance(0.1):
        other = s.tensor(lambda value: value.dim() > 0)
        forms = [f"{other}.shape[{s.dim(other)}]"]
    return s.choice(forms)


def sliced(s: Scope, x: str, dim: int) -> str:
    """Return the text of a slice of an axis, without brackets."""
    step = s.choice(["", "", "", ":2", ":3"])
    return f"{_bound(s, x, dim)}:{_bound(s, x, dim)}{step}"


def subscript(s: Scope, x: str) -> str:
    """Return the text between the brackets of a basic index."""
    rank = len(s.shape(x))
    parts = []
    for dim in range(s.integer(1, rank)) if rank else []:
        form = s.integer(0, 9)
        if form < 5:
            parts.append(sliced(s, x, dim))
        elif form < 7 and s.shape(x)[dim] > 0:
            parts.append(str(s.integer(-s.shape(x)[dim], s.shape(x)[dim] - 1)))
        else:
            parts.append(":")
    if s.chance(0.15):
        parts.insert(0, "...") if len(parts) == rank else parts.append("...")
    if s.chance(0.15):
        parts.insert(s.integer(0, len(parts)), "None")
    return ", ".join(parts) or "..."


def _reshaped(s: Scope, x: str) -> str:
    shape = s.shape(x)
    kind = s.choice(["flat", "merge", "split", "keep", "first", "view_as"])
    method = s.choice(["reshape", "reshape", "view"])
    if kind == "flat" or len(shape) < 2:
        return s.choice([f"{x}.{method}(-1)", f"{x}.flatten()", f"torch.ravel({x})"])
    if kind == "merge":
        start = s.integer(0, len(shape) - 2)
        return f"{x}.flatten({start}, {start + 1})"
    if kind == "first":
        return f"{x}.{method}({x}.shape[0], -1)"
    if kind == "view_as":
        return f"{x}.reshape_as({x}.transpose(0, 1))"
    if kind == "keep":
        sizes = [s.size(x, dim) for dim in range(len(shape))]
        s.rng.shuffle(sizes)
        return f"{x}.{method}({', '.join(sizes)})"
    dim = s.dim(x, lambda size: size > 0 and size % 2 == 0)
    return s.choice([f"{x}.unflatten({dim}, (2, -1))", f"{x}.unflatten({dim}, ({x}.shape[{dim}] // 2, 2))"])


def view(s: Scope) -> str:
    """Write a view of a tensor, or a copy where the layout needs one."""
    x = s.tensor(at_least(1))
    rank, d, e = len(s.shape(x)), s.dim(x), s.dim(x)
    size = s.shape(x)[d]
    start = s.integer(0, size - 1)
    order = s.rng.sample(range(rank), rank)
    form = s.choice(
        [
            lambda: f"{x}.transpose({d}, {e})", lambda: f"{x}.permute({', '.join(map(str, order))})", lambda: _reshaped(s, x),
            lambda: f"{x}.unsqueeze({s.integer(-rank - 1, rank)})", lambda: f"{x}.squeeze({d})",
            lambda: f"{x}[{subscript(s, x)}]", lambda: f"{x}[{subscript(s, x)}]",
            lambda: f"{x}.select({d}, {s.integer(-size, size - 1)})",
            lambda: f"{x}.narrow({d}, {start}, {s.integer(1, size - start)})", lambda: f"{x}.movedim({d}, {e})",
            lambda: f"{x}.unsqueeze({d}).expand_as({x}.unsqueeze({d}))",
            lambda: f"{x}[None].expand(2, {', '.join(['-1'] * rank)})", lambda: f"{x}.diagonal({s.integer(-1, 1)}, {d}, {e})",
            lambda: f"{x}.unbind({d})[{s.choice([0, -1])}]", lambda: f"{x}.chunk({s.integer(1, 3)}, {d})[{s.choice([0, -1])}]",
            lambda: f"{x}.split({s.integer(1, 3)}, {d})[0]",
            lambda: f"{x}.unfold({d}, {s.integer(1, size)}, {s.integer(1, 2)})", lambda: f"{x}.detach()",
            lambda: f"{x}.contiguous()", lambda: f"{x}.mT", lambda: f"{x}.swapaxes({d}, {e})", lambda: f"torch.atleast_2d({x})",
            lambda: f"{x}.clone()", lambda: f"{x}.tensor_split({s.integer(1, 3)}, {d})[0]", lambda: f"{x}.squeeze()",
            lambda: _reshaped(s, x),
            lambda: f"{x}.clone(memory_format=torch.contiguous_format).as_strided("
            f"({s.integer(1, 2)}, {s.integer(1, 2)}), (1, 2), {s.integer(0, 1)})",
        ]
    )()  # fmt: skip
    return f"{s.new()} = {form}"


_WRITES = (
    "{x}.add_(1)", "{x}.mul_(2)", "{x}.clamp_(max=1)", "{x}.zero_()", "{x}.fill_({c})", "{x}[{i}] = {c}", "{x}[{i}] += 1",
    "{x}[{i}] *= 2", "{x}[{i}] = {x}[{i}] + 1", "{x}.masked_fill_({x} > 0, {c})", "{x}.neg_()", "{x} += 1", "{x} *= 2",
    "{x}[{i}].add_(1)", "{x}.select(0, 0).mul_(2)", "{x}.copy_({y})", "{x}.add_({y})", "{x}.sub_({y}, alpha=2)", "{x}.abs_()",
    "{x}[{i}] = {y}", "{x}.narrow(0, 0, 1).fill_({c})", "{x}.t_()", "{x}.unsqueeze_(0)", "{x}.squeeze_()", "{x}[...] = {c}",
    "{x}.transpose_(0, -1)", "{x}.sign_()", "{x}.where({x} > 0, {y}).add_(1)", "{x}[{i}].copy_({y}[{i}])", "{x}[{x} > 0] = {c}",
    "{x}.data.mul_(2)", "{x}.detach().add_(1)", "{x}.tril_()", "{x}.cumsum_(0)",
)  # fmt: skip
_BOOLEAN_WRITES = ("{x}[{i}] = True", "{x}.logical_not_()", "{x}.fill_(False)", "{x}.bitwise_and_({y} > 0)", "{x}[{i}] ^= True")


def write(s: Scope) -> str:
    """Write a statement that writes into a variable, seldom into an input."""
    inputs = [name for name in s.values if name.startswith("x")]
    names = [name for name in s.values if name not in inputs or s.chance(0.15)]
    if not names:
        raise Unfit
    x = s.choice(names[-4:])
    value = s.values[x]
    if value.dim() == 0 or value.numel() == 0:
        raise Unfit
    table = _BOOLEAN_WRITES if boolean(value) else _WRITES
    return s.choice(table).format(x=x, y=s.fitting(s.shape(x)), i=subscript(s, x), c=s.scalar())


def write_through(s: Scope) -> str:
    """Write statements that change a tensor through a view of a view."""
    x = s.tensor(lambda value: number(value) and value.dim() > 0 and value.numel() > 0)
    name, base = s.new(), s.new()
    rank = len(s.shape(x))
    outer = s.choice([
        f"[{subscript(s, x)}]", f".transpose({s.dim(x)}, {s.dim(x)})", f".view({', '.join(map(str, s.shape(x)))})",
        f".unsqueeze({s.integer(0, rank)})", f".reshape({x}.shape[0], -1)", ".flatten()", ".diagonal()", ".T", ".mT",
        f".movedim(0, {rank - 1})", f".select({s.dim(x)}, 0)", f".chunk(2, {s.dim(x)})[0]", f".split(1, {s.dim(x)})[-1]",
    ])  # fmt: skip
    inner = s.choice(["", "", "[0]", "[..., 0]", "[::2]", "[1:]", "[-1:]", ".view(-1)", ".unsqueeze(-1)", "[..., :-1]"])
    target = s.choice([
        "{v}.add_(1)", "{v}.mul_(2)", "{v} *= 3", "{v}.fill_({c})", "{v}[...] = {c}", "{v}.zero_()", "{v} += {v}",
        "{v}.copy_({v}.flip(0))", "{v}[0] = {c}", "{v}.clamp_(min=0)", "{v}[..., -1] += 1",
    ])  # fmt: skip
    return f"{base} = {x} + 0\n{name} = {base}{outer}{inner}\n{target.format(v=name, c=s.scalar())}"
