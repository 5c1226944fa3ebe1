"""The command `onnxexp plugins`: list plugins from metadata alone.

The action `plugins why OP` explains an operator.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

from onnxexp._cli.common_arguments import PluginSelection, add_common
from onnxexp._cli.config_command import load
from onnxexp._cli.text_or_json import Output, Progress
from onnxexp._errors import OptionError
from onnxexp._plugins.discovery import PluginStatus, record_hash, states
from onnxexp._suggest import nearest

if TYPE_CHECKING:
    from onnxexp._errors import PluginError
    from onnxexp._plugins.plugin import Plugin
    from onnxexp._symbolics.dispatch import Candidate, Dispatcher
    from onnxexp._symbolics.table import Symbolic


EXAMPLES = (
    ("onnxexp plugins", "the installed plugins and their state, without importing them"),
    ("onnxexp plugins why aten::gelu", "which plugin lowers it, which others could, and why they do not"),
    ("onnxexp plugins --lock", "the setting that lets no other plugin load"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--load", action="store_true", help="load the plugins and list hooks, operators, and errors (slower)")
    parser.add_argument("--lock", action="store_true", help="print the setting `allow` that pins the active plugins")
    PluginSelection.add_arguments(parser)
    actions = parser.add_subparsers(dest="action", metavar="why OP")
    why = actions.add_parser("why", help="show which plugin lowers an operator, and why not another", allow_abbrev=False)
    why.add_argument("op", metavar="OP", help="a torch operator, such as aten::gelu or aten::add.Tensor")
    add_common(why)
    PluginSelection.add_arguments(why, inherited=True)


def run(options: argparse.Namespace, output: Output) -> int:
    """List the plugins, or explain an operator.

    Returns 1 if a plugin is refused or broken, or if no plugin lowers the operator.
    """
    if options.action == "why":
        return _why(options, output)
    if options.load:
        return _loaded(options, output)
    found = states(load(options))
    if options.lock:
        return _lock(found, output)
    rows = [[s.found.name, s.found.distribution, s.found.version, s.state, s.found.value, s.reason] for s in found]
    _table(output, ["plugin", "distribution", "version", "state", "entry point", "reason"], rows)
    output.document([_state(state) for state in found])
    return int(any(state.state == "refused" for state in found))


def _lock(found: list[PluginStatus], output: Output) -> int:
    """Print `allow`'s entries as TOML, and return 1 if a distribution has no RECORD."""
    on = {state.found.distribution: state.found for state in found if state.state == "on"}
    hashes = {name: record_hash(plugin) for name, plugin in on.items()}
    entries = [f"{name}@{digest}" if digest else name for name, digest in hashes.items()]
    output.line("allow = [\n" + "".join(f"    {json.dumps(entry, ensure_ascii=False)},\n" for entry in entries) + "]")
    output.document({"allow": entries})
    return int(not all(hashes.values()))


def _state(state: PluginStatus) -> dict[str, Any]:
    found = state.found
    return {
        "name": found.name,
        "distribution": found.distribution,
        "version": found.version,
        "state": state.state,
        "reason": state.reason,
        "entry_point": found.value,
        "location": found.location,
    }


def _table(output: Output, columns: list[str], rows: list[list[str]]) -> None:
    if not rows:
        output.line(
            "no plugin is installed, so no operator can be lowered: `pip install onnxexp-plugin-aten` adds torch's operators"
        )
    output.table(columns, rows)


def _loaded(options: argparse.Namespace, output: Output) -> int:
    with Progress() as progress:
        progress.stage("loading torch and the plugins")
        from onnxexp._cli.loaded_plugins import load_all

        found = load_all(load(options))
    described = [{**_state(state), **_contents(plugin)} for state, plugin in found]
    columns = ["plugin", "distribution", "version", "state", "hooks", "operators", "override", "cause"]
    rows = [
        [each["name"], each["distribution"], each["version"], each["state"], ", ".join(each["hooks"]),
         str(each["operators"] or ""), "yes" if each["override"] else "", each["reason"]]
        for each in described
    ]  # fmt: skip
    _table(output, columns, rows)
    output.document(described)
    return int(any(each["state"] in ("refused", "broken") for each in described))


def _contents(plugin: Plugin | PluginError | None) -> dict[str, Any]:
    """Describe a loaded or broken plugin, or with None one that is off or refused."""
    nothing: dict[str, Any] = {"hooks": [], "operators": 0, "override": False}
    if plugin is None:
        return nothing
    if isinstance(plugin, Exception):
        return {**nothing, "state": "broken", "reason": str(plugin)}
    return {
        "state": "loaded",
        "hooks": list(plugin.hooks),
        "operators": sum(len(table.operators()) for table in plugin.tables),
        "override": any(table.override for table in plugin.tables),
    }


def _why(options: argparse.Namespace, output: Output) -> int:
    with Progress() as progress:
        progress.stage("loading torch and the plugins")
        from onnxexp._plugins.loading import load as load_plugins

        config = load(options)
        plugins = load_plugins(config)
    if "::" not in options.op:
        raise OptionError(f"{options.op!r} has no namespace; write it as aten::{options.op}")
    found = claims(plugins.dispatcher, options.op, config.opset)
    namespace = options.op.partition("::")[0]
    of_nodes = plugins.implementations("lower_node")
    hooks = [each.plugin.name for each in of_nodes if not each.namespaces or namespace in each.namespaces]
    chosen, conflict = any(claim.chosen for claim in found), plugins.dispatcher.conflict(options.op)
    if conflict:
        output.line(f"no model with {options.op} can be exported: {conflict}")
    elif not found:
        output.line(f"no plugin has a symbolic for {options.op}{nearest(options.op, sorted(plugins.dispatcher.operators))}")
    elif not chosen:
        output.line(f"no plugin lowers {options.op} at opset {config.opset}")
    described = [_claim(claim) for claim in found]
    rows = [
        ["first choice" if each["chosen"] else "", each["plugin"], each["entry"], each["serves"], each["reason"], each["what"]]
        for each in described
    ]
    output.table(["", "plugin", "entry", "serves", "why", "what"], rows)
    if hooks:
        output.line(f"the hook lower_node runs before the tables: {', '.join(hooks)}")
    if not chosen and not conflict:
        output.line("without a plugin that lowers it, torch's own decomposition is used")
    output.document({"op": options.op, "opset": config.opset, "hooks": hooks, "conflict": conflict, "claims": described})
    return 0 if chosen else 1


def _claim(claim: Claim) -> dict[str, Any]:
    from onnxexp._cli.symbolic_limits_text import limits

    symbolic = claim.symbolic
    return {
        "plugin": claim.plugin,
        "entry": symbolic.op,
        "chosen": claim.chosen,
        "reason": claim.reason,
        "serves": limits(symbolic),
        "what": symbolic.direct or symbolic.location,
        "direct": symbolic.direct,
        "location": symbolic.location,
    }


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
