"""Statements in half precision: float16, bfloat16, layers of them, and autocast."""

from __future__ import annotations

from .scope import Scope, at_least, floating, is_all

_HALVED = (
    "{x}.to({t})",
    "{x}.to({t}) * 2 + 1",
    "({x}.to({t}) + {x}.to({t}).sum()).float()",
    "{x}.to({t}).softmax({d}).float()",
    "{x}.to({t}) + {x}",
    "({x}.to({t}) @ {x}.to({t}).mT).float()",
    "{x}.to({t}).float() - {x}.float()",
    "F.gelu({x}.to({t}))",
    "F.layer_norm({x}.to({t}), {x}.shape[-1:])",
    "{x}.to({t}).amax({d})",
    "{x}.to({t}).sort({d})[0]",
    "torch.where({x} > 0, {x}.to({t}), 0)",
    "torch.cat([{x}.to({t}), {x}.to({t})], {d})",
    "{x}.to({t})[1:].clone()",
    "{x}.to({t}).mean({d}, dtype=torch.float32)",
    "{x}.to({t}).cumsum({d})",
    "F.scaled_dot_product_attention({x}.to({t}), {x}.to({t}), {x}.to({t}))",
    "{x}.to({t}).type_as({x})",
    "{x}.to({t}) > {x}.to({t}).mean()",
)
_MODULES = (
    "nn.Linear({last}, 3).to({t})",
    "nn.LayerNorm({last}).to({t})",
    "nn.Sequential(nn.Linear({last}, 4), nn.SiLU()).to({t})",
)
_AUTOCAST = (
    "with torch.autocast('cpu', dtype={t}):\n    {v} = {layer}({x})",
    "with torch.autocast('cpu', dtype={t}):\n    {v} = ({layer}({x}) * 2).softmax(-1)",
    "with torch.autocast('cpu', dtype={t}):\n    {v} = {x} @ {x}.mT\n{v} = {v}.float() + 1",
)


def halved(s: Scope) -> str:
    """Write a conversion and its use; seldom a layer or autocast."""
    x = s.tensor(is_all(floating, at_least(1)))
    dtype = s.choice(["torch.float16", "torch.bfloat16"])
    form, v, last = s.integer(0, 9), s.new(), s.shape(x)[-1]
    if form == 0:
        layer = s.attribute("m", s.choice(_MODULES).format(last=last, t=dtype))
        return f"{v} = {layer}({x}.to({dtype}))"
    if form == 1 and s.frontend != "script" and s.values[x].element_size() == 4:
        layer = s.attribute("m", f"nn.Linear({last}, 3)")
        return s.choice(_AUTOCAST).format(v=v, x=x, t=dtype, layer=layer)
    return f"{v} = {s.choice(_HALVED).format(x=x, t=dtype, d=s.dim(x))}"
