"""Statements of networks: layers, resampling, buffers, static control flow."""

from __future__ import annotations

from .scope import Scope, at_least, floating, is_all, number

_RESAMPLED_1D = (
    "F.max_pool1d({x}, 2)", "F.avg_pool1d({x}, 2, 1, 1)", "F.interpolate({x}, scale_factor=2.0)",
    "F.adaptive_avg_pool1d({x}, 2)", "F.interpolate({x}, size=5, mode='linear')",
    "F.interpolate({x}, scale_factor=1.5, mode='linear', align_corners=True)", "F.pad({x}, (1, 1), mode='reflect')",
    "F.pad({x}, (1, 2), mode='replicate')", "F.pad({x}, (1, 1), mode='circular')", "F.adaptive_max_pool1d({x}, 1)",
    "F.max_pool1d({x}, {x}.shape[-1])", "F.lp_pool1d({x}.abs() + 1, 2, 2)", "F.interpolate({x}, size={x}.shape[-1] * 2)",
    "F.avg_pool1d({x}, 3, 2, ceil_mode=True)", "F.interpolate({x}, scale_factor=0.7, mode='area')",
    "F.max_pool1d({x}, 3, 2, 1, ceil_mode=True)", "F.instance_norm({x})", "F.channel_shuffle({x}, 2)",
)  # fmt: skip
_RESAMPLED_2D = (
    "F.max_pool2d({x}, 2)", "F.avg_pool2d({x}, 2, 1, 1)", "F.interpolate({x}, scale_factor=2)",
    "F.adaptive_avg_pool2d({x}, (1, 1))", "F.adaptive_avg_pool2d({x}, 2)",
    "F.interpolate({x}, scale_factor=2.0, mode='bilinear')",
    "F.interpolate({x}, size=(3, 5), mode='bilinear', align_corners=True)", "F.avg_pool2d({x}, {x}.shape[2:])",
    "F.interpolate({x}, scale_factor=(0.5, 1.5), mode='nearest')",
    "F.interpolate({x}, size={x}.shape[-1], mode='nearest-exact')", "F.pad({x}, (1, 0, 0, 1), mode='reflect')",
    "F.pad({x}, (1, 1, 1, 1), mode='replicate')", "F.pad({x}, (1, 0, 1, 0), mode='circular')",
    "F.pixel_shuffle({x}.repeat(1, 4, 1, 1), 2)", "F.unfold({x}, 2)", "F.pixel_unshuffle({x}, 2)",
    "F.grid_sample({x}, torch.zeros({x}.shape[0], 2, 3, 2) + 0.3, align_corners=False)",
    "F.max_pool2d({x}, 3, 2, 1, ceil_mode=True)", "F.interpolate({x}, scale_factor=0.6, mode='area')",
    "F.interpolate({x}, scale_factor=1.7, mode='bicubic')", "F.adaptive_max_pool2d({x}, (2, 1))",
    "F.lp_pool2d({x}.abs() + 1, 2, 2)", "F.interpolate({x}, size=({x}.shape[2] * 2, {x}.shape[3] + 1), mode='bilinear')",
    "F.avg_pool2d({x}, 2, ceil_mode=True, count_include_pad=False)", "F.local_response_norm({x}, 2)",
    "F.fold(F.unfold({x}, 2), {x}.shape[2:], 2)",
    "F.affine_grid(torch.eye(2, 3)[None].expand({x}.shape[0], 2, 3), {x}.shape, align_corners=True)",
    "F.max_pool2d({x}, (1, 2), padding=(0, 1))",
)  # fmt: skip
_BUFFER_WRITES = (
    "{b}.add_({x}.sum())", "{b} += 1", "{b}[0] = {x}.max()", "{b}.copy_({b}.flip(0))", "{b}.mul_(0.9)", "{b}.zero_()",
    "{b}[-1:] += {b}[:1]", "{b}.lerp_(torch.ones(3), 0.5)", "{b}[torch.tensor([0, 2])] = 5.0", "{b}.data.add_(1)",
)  # fmt: skip
_CONDITIONS = (
    "self.training", "{x}.dim() > 1", "{x}.shape[{d}] > 2", "{x}.dtype == torch.float32", "{flag}", "{x}.shape[{d}] % 2 == 0",
    "not {flag}", "{x}.numel() > 0", "{x}.shape[0] == {x}.shape[-1]",
)  # fmt: skip


def resampled(s: Scope) -> str:
    x = s.tensor(lambda value: floating(value) and value.dim() in (3, 4) and value.numel() > 0)
    table = _RESAMPLED_1D if len(s.shape(x)) == 3 else _RESAMPLED_2D
    return f"{s.new()} = {s.choice(table).format(x=x)}"


def layer(s: Scope) -> str:
    """Write a layer with parameters of its own, or a parameter."""
    x = s.tensor(is_all(floating, at_least(1), lambda value: value.dtype is not None and value.element_size() == 4))
    shape, name = s.shape(x), s.new()
    last, channels, axes = shape[-1], shape[1] if len(shape) > 1 else 1, max(len(shape) - 2, 1)
    made = {
        "linear": f"nn.Linear({last}, 3)",
        "norm": f"nn.LayerNorm({last})",
        "batch": f"nn.BatchNorm{axes}d({channels})",
        "conv": f"nn.Conv{axes}d({channels}, 2, {s.integer(1, 3)}, padding={s.integer(0, 1)})",
        "transposed": f"nn.ConvTranspose{axes}d({channels}, 2, 2, stride=2)",
        "prelu": "nn.PReLU()",
        "gru": f"nn.GRU({last}, 2, batch_first=True)",
        "dropout": "nn.Dropout(0.5)",
        "group": f"nn.GroupNorm(1, {channels})",
        "embedding": "nn.Embedding(5, 3)",
        "parameter": f"nn.Parameter(torch.randn({last}))",
        "scalar": "nn.Parameter(torch.tensor(1.5))",
    }
    kind = s.choice([*made])
    attribute = s.attribute({"gru": "rnn", "parameter": "p", "scalar": "p"}.get(kind, "m"), made[kind])
    form = {"gru": "{a}({x})[0]", "parameter": "{x} * {a}", "scalar": "{x} + {a}", "embedding": "{a}({x}.abs().long() % 5)"}
    return f"{name} = {form.get(kind, '{a}({x})').format(a=attribute, x=x)}"


def mutated_buffer(s: Scope) -> str:
    """Write to a buffer and read it; seldom a tensor that is no buffer."""
    x = s.tensor(number)
    buffer = s.buffer("torch.tensor([1.0, 2.0, 3.0])") if s.chance(0.85) else s.attribute("t", "torch.ones(3)")
    write = s.choice(_BUFFER_WRITES).format(b=buffer, x=x)
    read = s.choice(["{v} = {b} * 2", "{v} = {x}.sum() + {b}", "{v} = {b}", "{v} = {b}[1:]", "{v} = {b} + 0\n{w}"])
    first = "" if s.chance(0.2) else f"{write}\n"
    return first + read.format(v=s.new(), b=buffer, x=x, w=write)


def branch(s: Scope) -> str:
    """Write a branch on a static value or a size, whose sides have one shape."""
    x = s.tensor(is_all(number, at_least(1)))
    flag = s.attribute("flag", s.choice(["True", "False"])) if s.chance(0.5) else "self.training"
    condition = s.choice(_CONDITIONS).format(x=x, d=s.dim(x), flag=flag)
    name = s.new()
    sides = s.rng.sample([f"{x} + 1", f"{x} * 2", f"{x} - {x}.sum()", f"{x}.flip(0)", f"{x}.clone()"], 2)
    if s.chance(0.15):
        return f"{name} = {x} * 1\nif {condition}:\n    {name}.add_(1)\nelse:\n    {name}.mul_(3)"
    return f"if {condition}:\n    {name} = {sides[0]}\nelse:\n    {name} = {sides[1]}"


def loop(s: Scope) -> str:
    """Write a loop of a fixed number of rounds, or over sizes or parts."""
    x = s.tensor(is_all(number, at_least(1)))
    name, d = s.new(), s.dim(x)
    body = s.choice(
        [
            "{v} = {v} * 2 - i",
            "{v} = {v} + {x}",
            "{v} = {v}.flip(0) + i",
            "{v}[0] += i",
            "{v} = ({v} + i).clamp(max=9)",
            "{v}.add_(i)",
        ]
    )
    rounds = s.choice(["2", "3", str(s.shape(x)[d]), "len([1, 2])"]) if s.chance(0.95) else f"{x}.shape[{d}]"
    text = f"{name} = {x} * 1\nfor i in range({rounds}):\n    {body.format(v=name, x=x)}"
    stacked = [f"torch.stack([{x}, {x} + 1])", f"torch.stack([{x}, {x} + 1]).unbind()", f"torch.stack([{x}] * 3).split(2)"]
    parts = s.choice([f"{x}.chunk(2, {d})", *stacked])
    return text if s.chance(0.7) else f"{name} = {x}.sum()\nfor part in {parts}:\n    {name} = {name} + part.sum()"
