"""Names of the graph's inputs and outputs.

The rule:
    * An input has the name of the parameter that it is bound to. An element of a tuple, list, dict, dataclass, NamedTuple
      or other pytree node adds its index, key or field after a dot: ``past.0.key``. An element of ``*xs`` is ``xs.0``. An
      entry of ``**options`` has its own key as its name. A container may have a name of its own: a cache of transformers
      is ``past_key_values``, also where its parameter is ``cache``.
    * A lone tensor that the model returns is ``output``. The elements of a returned tuple or list are ``output_0``,
      ``output_1`` (deeper ones ``output_1.0.key``; None keeps its number). A returned dict, dataclass, NamedTuple or
      ModelOutput has its keys or fields as names: ``logits``, ``past.0.key``.
    * An output that would have an input's name gets ``_out`` after it; ``past_key_values.0.key``, or any that begins with
      ``past``, becomes ``present.0.key``. Any other name that is taken gets ``_1``, ``_2``, ….
    * The user's names come first, in order. The rest keep their default names, and change where they collide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from onnxexp._errors import OptionError
from onnxexp._request.pytree_leaves import Leaf
from onnxexp._request.unique_names import unique_names


def assign_names(defaults: Sequence[str], given: Sequence[str] | None, *, what: str, taken: Collection[str] = ()) -> list[str]:
    """Replace the first defaults by the given names, and make all names unique.

    Args:
        defaults: The default name of each input or output, in order.
        given: The user's names; there may be fewer than there are defaults.
        what: ``"input"`` or ``"output"``, for messages.
        taken: Names of other values of the graph.

    Raises:
        OptionError: There are too many names, one is empty, taken, given twice, or not a string.
    """
    given = [] if given is None else _checked(given, defaults, what, taken)
    return given if len(given) == len(defaults) else [*given, *unique_names(defaults[len(given) :], {*given, *taken})]


def assign_output_names(
    leaves: Sequence[Leaf], given: Sequence[str] | None, inputs: Collection[str], passed: Mapping[int, str] = {}
) -> list[str]:
    """Name the outputs of the graph.

    Args:
        leaves: The leaves of the result that become outputs, in order.
        given: The user's `output_names`.
        inputs: The names of the graph's inputs.
        passed: The input's name for each output, by position, that is an input returned unchanged.
    """
    pasts = {name.partition(".")[0] for name in inputs if name.startswith("past")}
    named = [(leaf.name, *leaf.name.partition(".")) for leaf in leaves]
    defaults = [
        f"present{dot}{rest}" if root in pasts else f"{name}_out" if name in inputs else name for name, root, dot, rest in named
    ]
    kept: dict[int, str] = {}
    for position, name in passed.items():
        if name not in kept.values() and position >= len(given or ()):
            kept[position] = name
    free = [position for position in range(len(leaves)) if position not in kept]
    names = assign_names([defaults[position] for position in free], given, what="output", taken=inputs)
    return [name for _, name in sorted([*zip(free, names, strict=True), *kept.items()])]


def _checked(given: Sequence[str], defaults: Sequence[str], what: str, taken: Collection[str]) -> list[str]:
    there_are = f"the model has {len(defaults)} {what}{'s' if len(defaults) != 1 else ''}: {', '.join(defaults) or 'none'}"
    names: object = given
    if not isinstance(names, (list, tuple)) or [name for name in names if not isinstance(name, str) or not name]:
        raise OptionError(f"{what}_names must be a list of names (non-empty strings), not {given!r}; {there_are}.")
    if len(given) > len(defaults):
        raise OptionError(f"{what}_names gives {len(given)} names ({', '.join(given)}), but {there_are}. Give at most that many.")
    for index, name in enumerate(given):
        if name in given[:index]:
            raise OptionError(f"{what}_names gives {name!r} more than once. Every {what} needs a name of its own; {there_are}.")
        if name in taken:
            raise OptionError(f"{what}_names: {name!r} is already the name of an input. Choose another; {there_are}.")
    return list(given)
