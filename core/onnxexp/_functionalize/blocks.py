"""Rewrite writes inside branches and loops to tensors from outside.

A branch gets more outputs; a loop carries more values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnxexp._errors import CaptureError
from onnxexp._functionalize.aliasing import values_used
from onnxexp._functionalize.inplace_rewriter import InPlaceRewriter
from onnxexp._functionalize.memory_values import MemoryState
from onnxexp._functionalize.places import Ref, refuse
from onnxexp._neutral_graph import Graph, Node, Value, values_in


def rewrite_blocks(rewriter: InPlaceRewriter, node: Node) -> None:
    """Rewrite a node with blocks, and the blocks.

    Raises CaptureError where a write cannot be followed out of them.
    """
    rewriter.memory.write_back_all()
    outer = {rewriter.ref(value).root: None for value in rewriter.aliases.outer(node)}
    before = list(node.args)
    node.args = [rewriter.resolve(arg) for arg in node.args]
    rewriter.memory.write_back_all()
    if node.op == "prim::If":
        _if(rewriter, node)
    elif node.op == "prim::Loop":
        _loop(rewriter, node, before, list(outer))
    else:
        _other(rewriter, node, before)
    rewriter.emit.nodes.append(node)


def _run(rewriter: InPlaceRewriter, block: Graph, state: MemoryState) -> MemoryState:
    """Rewrite a block, starting from `state`; returns the state at its end."""
    outside, rewriter.memory.state = rewriter.memory.state, state
    rewriter.depth += 1
    rewriter.run(block)
    rewriter.depth -= 1
    rewriter.memory.state = outside
    outside.spoiled.update((root, why) for root, why in state.spoiled.items() if root in outside.versions)
    return state


def _touched(before: MemoryState, after: MemoryState) -> list[Ref]:
    """Find the outer roots that a block wrote to."""
    return [root for root, version in before.versions.items() if after.versions[root] != version]


def _drop(values: list[Any], indices: Sequence[int]) -> list[Any]:
    return [value for index, value in enumerate(values) if index not in indices]


def _if(rewriter: InPlaceRewriter, node: Node) -> None:
    memory = rewriter.memory
    sources = [list(block.outputs) for block in node.blocks]
    ends = [_run(rewriter, block, memory.state.copy()) for block in node.blocks]
    known = [index for index, output in enumerate(node.outputs) if _is_written_elsewhere(rewriter, output)]
    for block in node.blocks:
        block.outputs = _drop(block.outputs, known)
    outputs = node.outputs
    node.outputs = _drop(outputs, known)
    for root in dict.fromkeys(root for end in ends for root in _touched(memory.state, end)):
        for block, end in zip(node.blocks, ends, strict=True):
            block.outputs.append(end.values[root][0])
        node.outputs.append(rewriter.emit.value(root.name, root.type))
        memory.replace(root, node.outputs[-1])
    remaining = [index for index in range(len(outputs)) if index not in known]
    for source in sources:
        _link_results(rewriter, [(outputs[index], source[index]) for index in remaining])


def _is_written_elsewhere(rewriter: InPlaceRewriter, value: Value) -> bool:
    """Return whether a value of a block is the same tensor as a written one outside."""
    return rewriter.aliases.written(value) and rewriter.aliases.origin(value) is not value


def _link_results(rewriter: InPlaceRewriter, pairs: Sequence[tuple[Value, Any]]) -> None:
    """Note which memory outputs may share; `pairs` are an output and its source."""
    memory, aliases = rewriter.memory, rewriter.aliases
    first: dict[Ref, Value] = {}
    for output, source in pairs:
        root = rewriter.root(source) if aliases.written(output) else None
        for reached in memory.reach(root) if root is not None else ():
            if reached in memory.state.versions:
                memory.link(rewriter.ref(output), reached)
            memory.link(rewriter.ref(output), rewriter.ref(first.setdefault(reached, output)))


def _loop(rewriter: InPlaceRewriter, node: Node, before: list[Any], outer: list[Ref]) -> None:
    memory, (block,) = rewriter.memory, node.blocks
    written = rewriter.aliases.written_in(node)
    promoted = [root for root in outer if rewriter.aliases.find(root.origin) in written]
    known = [index for index, value in enumerate(block.inputs[1:]) if _is_written_elsewhere(rewriter, value)]
    starts, sources = _drop(before[2:], known), _drop(block.outputs[1:], known)
    node.args = [*node.args[:2], *_drop(node.args[2:], known), *(memory.read(root) for root in promoted)]
    node.outputs = _drop(node.outputs, known)
    block.inputs = [block.inputs[0], *_drop(block.inputs[1:], known)]
    block.outputs = [block.outputs[0], *sources]
    carried, results, used = block.inputs[1:], list(node.outputs), set(values_used(block))
    count = len(carried)  # what comes after is stacked

    start, end = _run_body(rewriter, block, promoted, list(zip(carried, starts, strict=True)))
    block.outputs[1 + count : 1 + count] = [end.values[root][0] for root in promoted]
    for place, root in enumerate(promoted, count):
        node.outputs.insert(place, rewriter.emit.value(root.name, root.type))
        memory.replace(root, node.outputs[place])
    changed = {root for root, version in end.versions.items() if start.versions.get(root, 0) != version}
    rounds = [(value, source) for value, source in zip(carried, sources[:count], strict=True) if value in used]
    _check_rounds(rewriter, node, changed, rounds)
    _check_stacked(rewriter, node, changed, carried, sources[count:])
    _link_results(rewriter, list(zip(results[:count], starts, strict=True)))
    _link_results(rewriter, list(zip(results, sources, strict=True)))


def _run_body(
    rewriter: InPlaceRewriter, block: Graph, promoted: list[Ref], carried: list[tuple[Value, Any]]
) -> tuple[MemoryState, MemoryState]:
    """Rewrite a loop's body; return the states at its begin and its end.

    The memory that the body writes is carried.
    """
    memory = rewriter.memory
    outside, memory.state = memory.state, memory.state.copy()
    for root in promoted:
        block.inputs.append(rewriter.emit.value(root.name, root.type))
        memory.replace(root, block.inputs[-1])
    for value, start in carried:
        if rewriter.aliases.written(value) and rewriter.aliases.written(start):
            memory.link(rewriter.ref(value), rewriter.ref(start))
    body, memory.state = memory.state, outside
    start_state, spoiled = body.copy(), set(outside.spoiled)
    used, memory.used = memory.used, {}
    end = _run(rewriter, block, body)
    for root, why in outside.spoiled.items():
        if root in memory.used and root not in spoiled:  # the next round reads contents that this round left unknown
            raise CaptureError(why)
    memory.used = {**used, **memory.used}
    return start_state, end


def _check_rounds(rewriter: InPlaceRewriter, node: Node, changed: set[Ref], rounds: list[tuple[Value, Any]]) -> None:
    """Refuse a loop that passes on, under another name, memory that it also writes.

    The names would mean other memory in each round.
    """
    memory = rewriter.memory
    known = [(rewriter.root(value), rewriter.root(source)) for value, source in rounds if rewriter.aliases.written(value)]
    given = {root for root, _ in known}
    reach = [memory.reach(source) if source is not None else {} for _, source in known]
    for (root, source), reached in zip(known, reach, strict=True):
        outer = any(other in given or other in memory.state.versions for other in reached)
        others = [other for other in reach if other is not reached and not other.keys().isdisjoint(reached)]
        meant = {root, *reached, *(ref for other in others for ref in other)}
        if source is not None and ((source is not root and outer) or others) and not meant.isdisjoint(changed):
            refuse(f"a loop writes to %{source.name} and hands it on as another value", node.where, "clone() what it hands on")


def _check_stacked(rewriter: InPlaceRewriter, node: Node, changed: set[Ref], carried: list[Value], stacked: list[Any]) -> None:
    """Refuse a loop that collects memory that it also writes in a later round."""
    memory = rewriter.memory
    given = {rewriter.root(value) for value in carried}
    for source in stacked:
        root = rewriter.root(source)
        for other in memory.reach(root) if root is not None else ():
            if other in changed and (other in given or other in memory.state.versions):
                refuse(f"a loop writes to %{other.name}, which a list holds", node.where, "clone() what is put into the list")


def _other(rewriter: InPlaceRewriter, node: Node, before: list[Any]) -> None:
    """Rewrite ``prim::Scan``, which may write only to tensors that it makes."""
    memory, aliases = rewriter.memory, rewriter.aliases
    given = [value for value in values_in(before) if aliases.written(value)]
    for block in node.blocks:
        end = _run(rewriter, block, memory.state.copy())
        own = [rewriter.root(value) for value in block.inputs if aliases.written(value)]
        if _touched(memory.state, end) or any(root is not None and end.versions.get(root, 0) for root in own):
            refuse(f"{node.op} writes to a tensor that it was given", node.where, "clone() the tensor inside before writing")
    for output in filter(aliases.written, node.outputs):
        for value in [*given, *node.outputs]:
            if aliases.written(value) and aliases.find(value) is aliases.find(output):
                memory.link(rewriter.ref(output), rewriter.ref(value))
