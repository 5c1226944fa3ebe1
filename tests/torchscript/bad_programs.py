# ruff: noqa: E731, UP006, UP007, UP035, UP045 - TorchScript reads this file, and not all of today's Python
"""More scripts that ONNX cannot express: text, dicts, classes, shared memory."""

from __future__ import annotations

import enum
from typing import Any, Dict, List, Optional, Union

import torch
from torch import Tensor

from .bad_lists import rows

# Text, dicts, classes


def text_of_loop(x: Tensor) -> str:
    text = ""
    for _ in range(x.size(0)):
        text = text + "a"
    return text


def length_of_text(x: Tensor) -> Tensor:
    return x * len("{}".format(x.size(0)))  # noqa: UP032


def number_of_text(x: Tensor) -> Tensor:
    return x * int(str(x.size(0)))


def character_by_size(x: Tensor) -> Tensor:
    return x if "abc"[x.size(0) % 3] == "b" else -x


def key_that_may_be_missing(x: Tensor) -> Tensor:
    table: Dict[int, Tensor] = {0: x, 1: -x}
    found = table.get(int(x.min()))
    assert found is not None
    return found


def key_asked_for(x: Tensor) -> Tensor:
    table: Dict[int, Tensor] = {0: x, 1: -x}
    return x if int(x.min()) in table else -x


def keys_of_branches(x: Tensor) -> Tensor:
    found: Dict[str, Tensor] = {}
    if x.sum() > 0:
        found["a"] = x
    else:
        found["b"] = x
    return x if "a" in found else -x


class Color(enum.Enum):
    RED = 1
    GREEN = 2


def enum_of_branch(x: Tensor) -> Tensor:
    color = Color.RED
    if x.sum() > 0:
        color = Color.GREEN
    return x if color == Color.RED else -x


def union_of_branches(x: Tensor) -> Tensor:
    y: Union[int, Tensor] = 1
    if x.sum() > 0:
        y = x
    if isinstance(y, Tensor):
        return y
    return x


def anything_returned(x: Tensor) -> Any:
    if x.sum() > 0:
        return x
    return 3


def none_or_number(x: Tensor) -> Optional[int]:
    if x.sum() > 0:
        return 3
    return None


# Types that change, memory that is shared


def rank_of_rounds(x: Tensor) -> Tensor:
    y = x
    for _ in range(x.size(0)):
        y = y.unsqueeze(0)
    return y.reshape(-1)


def kind_of_rounds(x: Tensor) -> Tensor:
    y = torch.zeros(3, dtype=torch.int64)
    for i in range(x.size(0)):
        y = y + x[i]
    return y


def rank_of_branches(x: Tensor) -> Tensor:
    y = x.sum(0) if x.sum() > 0 else x
    return y.sum(-1)


def rank_asked_for(x: Tensor) -> Tensor:
    y = x.sum(0) if x.sum() > 0 else x
    return y * 2 if y.dim() == 1 else y


def complex_of_branch(x: Tensor) -> Tensor:
    z = torch.complex(x, x)
    if x.sum() > 0:
        z = z * 2
    return torch.view_as_real(z)


def complex_of_loop(x: Tensor) -> Tensor:
    z = torch.complex(x, x)
    for _ in range(x.size(0)):
        z = z * z
    return z.real


def aliased_by_branch(x: Tensor) -> Tensor:
    y = x.clone()
    z = y if x.sum() > 0 else y + 1
    z.add_(5)
    return y + z


def view_of_branch(x: Tensor) -> Tensor:
    y = x.clone()
    z = y[0] if x.sum() > 0 else y[1]
    z.add_(5)
    return y


def view_of_round(x: Tensor) -> Tensor:
    y = x.clone()
    z = y[0]
    for i in range(x.size(0)):
        z.add_(1)
        z = y[i]
    return y


def written_through_list(x: Tensor) -> Tensor:
    found = rows(x)
    found[0].add_(10)
    return torch.cat(found)


def written_through_list_in_loop(x: Tensor) -> Tensor:
    found = rows(x)
    for i in range(len(found)):
        found[i].add_(10)
    return torch.cat(found)


def appended_and_written(x: Tensor) -> Tensor:
    found: List[Tensor] = []
    y = torch.zeros(3)
    for i in range(x.size(0)):
        y.add_(x[i])
        found.append(y)
    return torch.stack(found)


# What does not compile, does not run, or has no operator


def recursive(x: Tensor) -> Tensor:
    if x.size(0) > 3:
        return recursive(x[1:])
    return x


def generating(x):
    def each():
        for i in range(x.size(0)):
            yield x[i]

    return sum(each())


def exception_as_flow(x):
    try:
        return x[5]
    except IndexError:
        return x


def with_lambda(x):
    add = lambda y: y + 1
    return add(x)


def with_set(x):
    return x * len({1, 2})


def through_numpy(x):
    return torch.from_numpy(x.numpy() + 1)


def attribute_asked_for(x: Tensor) -> Tensor:
    return x + 1 if hasattr(x, "scale") else x


def raising_by_value(x: Tensor) -> Tensor:
    if x.sum() > 0:
        raise ValueError("positive")
    return x


def raising_on_both_ways(x: Tensor) -> Tensor:
    if x.sum() > 100:
        raise ValueError("large")
    else:  # noqa: RET506 - both branches are what is tested
        raise ValueError("small")


def unknown_operator_in_branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.to_sparse().to_dense()
    return x


def unknown_operator_in_loop(x: Tensor) -> Tensor:
    for _ in range(x.size(0)):
        x = x.to_sparse().to_dense()
    return x


def quantized_inside(x: Tensor) -> Tensor:
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()
