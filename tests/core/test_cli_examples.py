"""The examples in the help of each command."""

from __future__ import annotations

import importlib
import shlex
from importlib import metadata
from typing import Any

import pytest

from onnxexp import _cli as cli
from onnxexp._cli import plugin_commands


def modules() -> dict[str, Any]:
    """Return the modules of the built-in commands, of our plugins' commands, and of their schemes, by command line."""
    found = {f"onnxexp {name}": cli._module(name) for name in cli.COMMANDS}
    for group, prefix, suffix in ((plugin_commands.GROUP, "onnxexp ", ""), (plugin_commands.TARGETS, "onnxexp export ", ":")):
        for point in metadata.entry_points(group=group):
            if point.module.startswith("onnxexp_"):
                found[f"{prefix}{point.name}{suffix}"] = importlib.import_module(point.module)
    return found


@pytest.mark.parametrize("name", [*modules()])
def test_a_command_has_examples_that_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = modules()[name]
    assert len(module.EXAMPLES) >= 2
    for line, meaning in module.EXAMPLES:
        assert line.startswith((name, "onnxexp export ")) and meaning
        options, chosen = cli._parse(shlex.split(line)[1:])
        assert options.command == name.split()[1]
        assert chosen is module or "hf:" in line
    with pytest.raises(SystemExit):
        cli.main([*shlex.split(name)[1:], "--help"])
    assert f"examples:\n  {module.EXAMPLES[0][0]}\n      {module.EXAMPLES[0][1]}\n" in capsys.readouterr().out
