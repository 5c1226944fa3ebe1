"""Statements that run recurrent layers on sequences of several lengths."""

from __future__ import annotations

from .scope import Scope, floating, is_all

_PACKED = (
    "p = nn.utils.rnn.pack_padded_sequence({x}, {n}, batch_first={first}, enforce_sorted=False)\n"
    "{v}, {w} = nn.utils.rnn.pad_packed_sequence({layer}(p)[0], batch_first={first}, total_length={x}.shape[{time}])",
    "p = nn.utils.rnn.pack_padded_sequence({x}, {n}, batch_first={first}, enforce_sorted=False)\n"
    "{v}, {w} = nn.utils.rnn.pad_packed_sequence({layer}(p)[0], batch_first={first}, padding_value=-1.0)",
    "p = nn.utils.rnn.pack_padded_sequence({x}, {n}, batch_first={first}, enforce_sorted=False)\n"
    "{v}, {w} = nn.utils.rnn.pad_packed_sequence(p, batch_first={first})",
    "p = nn.utils.rnn.pack_padded_sequence({x}, {n}, {first}, False)\n{w}, {v} = {layer}(p)\n"
    "{w}, _ = nn.utils.rnn.pad_packed_sequence({w})\n"
    "{v} = {v}[0] if isinstance({v}, tuple) else {v}",
    "p = nn.utils.rnn.pack_padded_sequence({x}, {n}.sort(descending=True)[0], batch_first={first})\n"
    "{v}, {w} = nn.utils.rnn.pad_packed_sequence({layer}(p)[0], batch_first={first})",
)
_LENGTHS = (
    "({x}.sum(-1) > 0).sum({time}).clamp(min=1)",
    "torch.full(({x}.shape[{batch}],), {x}.shape[{time}])",
    "(torch.arange({x}.shape[{batch}]) % {x}.shape[{time}] + 1)",
    "({x}[..., 0] != 9).sum({time})",
)
_LAYERS = (
    "nn.GRU({size}, 2, batch_first={first})",
    "nn.LSTM({size}, 3, batch_first={first})",
    "nn.RNN({size}, 2, batch_first={first})",
    "nn.GRU({size}, 2, batch_first={first}, bidirectional=True)",
    "nn.LSTM({size}, 2, 2, batch_first={first})",
)


def packed(s: Scope) -> str:
    """Write a packed sequence, a recurrent layer, and its padded results."""
    x = s.tensor(is_all(floating, lambda value: value.dim() == 3 and value.numel() > 0 and value.element_size() == 4))
    first = s.chance(0.7)
    layer = s.attribute("rnn", s.choice(_LAYERS).format(size=s.shape(x)[-1], first=first))
    places = {"time": int(first), "batch": 1 - first}
    lengths = s.choice(_LENGTHS).format(x=x, **places)
    return s.choice(_PACKED).format(v=s.new(), w=s.new(), x=x, n=lengths, layer=layer, first=first, **places)
