"""Generate parts of the documentation in a hook of MkDocs.

The hook replaces a line ``<!-- generated: NAME -->`` in a page by the part of that name.
"""

from __future__ import annotations

import argparse
import ast
import html
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from onnxexp import _cli as cli
from onnxexp import _errors as errors
from onnxexp._cli.common_arguments import add_common
from onnxexp._plugins import hookspecs
from onnxexp._request import config

CORE = Path(__file__).resolve().parents[1] / "core" / "onnxexp"
SECTIONS = ("When", "Parameters", "Result", "First or all", "Example")
EVERYWHERE = ("help", "json", "traceback", "action")
"""Arguments of every command, and the argument for the subcommand; the page describes them once."""
_MARKER = re.compile(r"^<!-- generated: (?P<name>[\w-]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in a page.

    MkDocs calls this function for each page.
    """
    return fill(markdown)


def fill(markdown: str) -> str:
    """Return a page with its markers replaced.

    Raises:
        KeyError: A part does not exist.
    """
    return _MARKER.sub(lambda match: PARTS[match["name"]](), markdown)


# Hooks


def hooks() -> dict[str, Callable[..., Any]]:
    """Return the specification of each hook, in the order of an export."""
    marker = f"{hookspecs.PROJECT}_spec"
    return {name: spec for name, spec in vars(hookspecs).items() if inspect.isfunction(spec) and marker in vars(spec)}


def hook_sections(spec: Callable[..., Any]) -> dict[str, str]:
    """Split a hook's docstring into sections.

    The text before the first section has the key "".
    """
    sections, current = {"": ""}, ""
    for line in inspect.getdoc(spec).splitlines():  # type: ignore[union-attr]
        if line.endswith(":") and line[:-1] in SECTIONS:
            current = line[:-1]
            sections[current] = ""
        else:
            sections[current] += line + "\n"
    return {name: textwrap.dedent(text).strip("\n") for name, text in sections.items()}


def _hooks() -> str:
    return "\n\n".join(_hook(name, spec) for name, spec in hooks().items())


def _hook(name: str, spec: Callable[..., Any]) -> str:
    sections = hook_sections(spec)
    lines = [f"## {name}", "", f"```python\n{name}{_bare_signature(spec)}\n```", "", sections.pop("")]
    for title, text in sections.items():
        body = _parameters(text) if title == "Parameters" else _prose(text)
        lines += ["", f"**{title}.** {body}" if not body.startswith("- ") else f"**{title}.**\n\n{body}"]
    return "\n".join(lines)


def _bare_signature(spec: Callable[..., Any]) -> str:
    signature = inspect.signature(spec)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return f"{signature.replace(parameters=bare, return_annotation=signature.empty)} -> {signature.return_annotation}"


def _parameters(text: str) -> str:
    """Format ``name: description`` entries with indented continuation lines as a list."""
    entries = [entry.partition(": ") for entry in re.split(r"\n(?=\w+: )", text)]
    return "\n".join(f"- `{name}`: {' '.join(description.split())}" for name, _, description in entries)


def _prose(text: str) -> str:
    """Format text in which ``::`` at a line's end introduces code."""
    before, introduced, code = text.partition("::\n")
    prose = before.replace("``", "`")
    return f"{prose}:\n\n```python\n{unindented(code)}\n```" if introduced else prose


def unindented(code: str) -> str:
    """Return a block of code without its indentation."""
    return textwrap.dedent(code).strip()


# Configuration


def _settings() -> str:
    """Format the keys of the configuration as a table."""
    rows = [f"| `{key.name}` | {key.meaning} | {_expected(key)} | {_default(key)} | {_merged(key)} |" for key in config.KEYS]
    return "\n".join(["| key | meaning | value | default | several sources |", "|---|---|---|---|---|", *rows])


def _variables() -> str:
    """Format the environment variables as a table."""
    rows = [f"| `{variable}` | `{key.name}` | {_text_form(key)} |" for variable, key in variables().items()]
    return "\n".join(["| variable | key | format |", "|---|---|---|", *rows])


def variables() -> dict[str, config.Key]:
    """Return the configuration's key of each environment variable."""
    return {f"ONNXEXP_{key.name.upper()}": key for key in config.KEYS}


def _expected(key: config.Key) -> str:
    return re.sub(r"(\{.*\}|&quot;name.*&quot;)", lambda match: f"<code>{match[1]}</code>", _cell(html.escape(key.expected)))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _default(key: config.Key) -> str:
    if key.default is None or key.default in ((), {}):
        return "none"
    return f"`{str(key.default).lower()}`"


def _merged(key: config.Key) -> str:
    """Describe how the values of two sources are combined."""
    if key.merge is None:
        return "the later wins"
    if isinstance(key.default, dict):
        return "merged by operator, the later wins"
    return "all of them apply" if key.name == "allow" else "united"


def _text_form(key: config.Key) -> str:
    if isinstance(key.default, bool):
        return "`1`, `true`, `yes` or `on`; `0`, `false`, `no`, `off` or empty"
    if isinstance(key.default, int):
        return "the number"
    return "pairs with commas: `aten::gelu=my-pack,aten::erf=other`" if isinstance(key.default, dict) else "names with commas"


# Command line


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command and subcommand, by its command line."""
    found: dict[str, argparse.ArgumentParser] = {}
    for command, summary in cli.COMMANDS.items():
        parser = argparse.ArgumentParser(f"onnxexp {command}", description=f"{summary[0].upper()}{summary[1:]}.")
        add_common(parser)
        module = cli._module(command)
        module.arguments(parser)
        parser.epilog = cli.examples(module)
        found.update(_with_subcommands(parser.prog, parser))
    return found


class _Wide(argparse.HelpFormatter):
    """Help text of a fixed width, independent of the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


def _with_subcommands(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:  # argparse has no public API to inspect a parser
        if isinstance(action, argparse._SubParsersAction):
            for command, inner in action.choices.items():
                yield from _with_subcommands(f"{name} {command}", inner)


def _commands() -> str:
    return "\n\n".join(_command(name, parser) for name, parser in parsers().items())


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = _Wide
    usage = parser.format_usage().removeprefix("usage: ").replace("\n" + " " * len("usage: "), "\n").rstrip()
    parts = [f"## {name}", parser.description or "", f"```text\n{usage}\n```"]
    for group in parser._action_groups:
        rows = [_argument(action) for action in group._group_actions if action.dest not in EVERYWHERE]
        if rows:
            parts += [f"*{group.title}*", "\n".join(["| | |", "|---|---|", *rows])]
    if parser.epilog:
        parts.append(f"```text\n{parser.epilog.replace('%%', '%')}\n```")
    return "\n\n".join(part for part in parts if part)


def _argument(action: argparse.Action) -> str:
    values = "" if action.nargs == 0 else _metavar(action)
    shown = ", ".join(f"`{flag}{' ' if values else ''}{values}`" for flag in action.option_strings) or f"`{values}`"
    text = (action.help or "") % {**vars(action), "prog": "onnxexp"}
    return f"| {_cell(shown)} | {_cell(text)} |"


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    return action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())


# Operators


def _operators() -> str:
    """List the operators that the plugin `aten` lowers, one per row."""
    from onnxexp._plugins.loading import load

    (plugin,) = load(config.load(plugins=["aten"])).loaded
    entries: dict[str, list[Any]] = {}
    for entry in itertools.chain(*plugin.tables):
        entries.setdefault(entry.op, []).append(entry)
    rows = [f"| `{op}` | {_opsets(forms)} | {_direct(forms)} |" for op, forms in entries.items()]
    return "\n".join([f"{len(rows)} operators.", "", "| operator | opset | ONNX |", "|---|---|---|", *rows])


def _opsets(forms: Iterable[Any]) -> str:
    texts = (f"{form.since or 'every'}" + (f" to {form.until}" if form.until else "") for form in forms)
    return ", ".join(texts)


def _direct(forms: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(f"`{form.direct}`" for form in forms if form.direct))


# Errors and names


def _error_tree() -> str:
    """Return the tree of exceptions, each with the first line of its docstring."""
    lines = "\n".join(_error_branch(errors.OnnxExporterError, "", ""))
    return f"```text\n{lines}\n```"


def _error_branch(kind: type[Exception], head: str, indent: str) -> Iterator[str]:
    """Yield the line of an exception, then those of its subclasses."""
    summary = (inspect.getdoc(kind) or "").partition("\n")[0]
    others = [f"also {base.__name__}" for base in kind.__bases__ if base.__module__ == "builtins"]
    yield f"{head}{kind.__name__}".ljust(30) + " ".join([summary, *(f"({each})" for each in others)])
    below = [each for each in kind.__subclasses__() if each.__module__ == "onnxexp"]
    for each in below:
        sign, stem = (" └─ ", "    ") if each is below[-1] else (" ├─ ", " │  ")
        yield from _error_branch(each, indent + sign, indent + stem)


def _error_classes() -> str:
    """Return a directive of mkdocstrings for each exception, in source order."""
    classes = [name for name in vars(errors) if name in errors.__all__]
    return "\n\n".join(f"::: onnxexp.{name}\n    options: {{ heading_level: 3 }}" for name in classes)


def _naming_rule() -> str:
    """Return the naming rule in io_names.py's docstring, without importing torch."""
    doc = ast.get_docstring(ast.parse((CORE / "_request" / "io_names.py").read_text("utf-8"))) or ""
    rule = textwrap.dedent(doc.partition("The rule:\n")[2])
    return re.sub(r"^\* ", "- ", rule.replace("``", "`"), flags=re.MULTILINE)


PARTS: dict[str, Callable[[], str]] = {
    "commands": _commands,
    "error-classes": _error_classes,
    "error-tree": _error_tree,
    "hooks": _hooks,
    "naming-rule": _naming_rule,
    "operators": _operators,
    "settings": _settings,
    "variables": _variables,
}
"""The generated parts, by name."""
