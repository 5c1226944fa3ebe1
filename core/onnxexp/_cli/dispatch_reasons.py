"""Explain which symbolic lowers an operator, and why not another."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxexp._symbolics.dispatch import Candidate, Dispatcher
    from onnxexp._symbolics.table import Symbolic


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One symbolic of an operator, and the reason why it comes first or not."""

    plugin: str
    symbolic: Symbolic
    chosen: bool
    reason: str


def claims(dispatcher: Dispatcher, op: str, opset: int) -> list[Claim]:
    """List an operator's symbolics in calling order, those of other opsets last.

    No symbolic is chosen where plugins conflict.
    """
    candidates, conflict, found = dispatcher.serving(op, opset), dispatcher.conflict(op), list[Claim]()
    for number, each in enumerate(candidates):
        reason = _reason(each, candidates[0]) if number else _merit(dispatcher, op, each)
        if conflict:
            best = dispatcher.rank(op, dispatcher.registered(op)[0].source)
            reason = "conflict: choose one" if dispatcher.rank(op, each.source) == best else "comes after those in conflict"
        found.append(Claim(each.source.plugin, each.symbolic, not (number or conflict), reason))
    serving = {id(each.symbolic) for each in candidates}
    for each in dispatcher.registered(op):
        if id(each.symbolic) not in serving:
            since = each.symbolic.since
            limit = f"from opset {since} on" if since > opset else f"up to opset {each.symbolic.until}"
            found.append(Claim(each.source.plugin, each.symbolic, False, f"serves {limit}"))
    return found


def _merit(dispatcher: Dispatcher, op: str, candidate: Candidate) -> str:
    user, preferred, override = (not each for each in dispatcher.rank(op, candidate.source))
    if len({id(each.source) for each in dispatcher.registered(op)}) == 1:
        return "the only plugin that claims it"
    reasons = ((user, "given in the call"), (preferred, "preferred by the configuration"), (override, "its table overrides"))
    return next((reason for holds, reason in reasons if holds), "the others do not serve this opset")


def _reason(candidate: Candidate, first: Candidate) -> str:
    declining = f"the entry of opset {first.symbolic.since}" if candidate.source is first.source else first.source.plugin
    return f"called where {declining} declines"
