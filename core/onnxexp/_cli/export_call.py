"""Build the arguments of `onnxexp.export` from a command line."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from onnxexp._cli.common_arguments import PluginSelection, add_target, dynamic_shapes, names
from onnxexp._cli.config_command import load as configured
from onnxexp._cli.text_or_json import Progress
from onnxexp._errors import OptionError
from onnxexp._request import config

_FLAGS = {
    "opset_version": ("opset", "--opset"),
    "dynamic_shapes": ("dynamic", "--dynamic"),
    "input_names": ("input_name", "--input-name"),
    "output_names": ("output_name", "--output-name"),
    "skip_passes": ("skip_pass", "--skip-pass"),
    "custom_opsets": ("custom_opset", "--custom-opset"),
    "operator_export_type": ("operator_export_type", "--operator-export-type"),
    "capture": ("capture", "--capture"),
    "fallback": ("fallback", "--fallback"),
    "target": ("runs_in", "--target"),
}
"""The attribute in the parsed command line, and the flag, of arguments of `export`."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A model, its example's positional arguments, and other arguments of `export`."""

    model: Any
    args: Any
    options: dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that choose a model and how it is lowered."""
    parser.add_argument(
        "target", metavar="MODULE:FACTORY|FILE|SCHEME:...",
        help="a model, or a callable that returns the model, (model, args), (model, args, kwargs) or a dict of the arguments of "
        "onnxexp.export, in a module or in FILE.py:FACTORY; or a file of torch.export.save (.pt2) or torch.jit.save (.pt); "
        "or what a plugin exports under a scheme of its own (`onnxexp export hf: --help` describes it)",
    )  # fmt: skip
    add_target(parser)
    PluginSelection.add_arguments(parser)
    group = parser.add_argument_group("the graph")
    group.add_argument("--input-name", action="append", metavar="NAME", help="the inputs' names, in order (repeatable)")
    group.add_argument("--output-name", action="append", metavar="NAME", help="the outputs' names, in order (repeatable)")
    group.add_argument("--skip-pass", action="append", metavar="[PLUGIN/]NAME", default=[], help="skip this pass (repeatable)")
    group.add_argument(
        "--custom-opset", action="append", metavar="DOMAIN=VERSION", default=[],
        help="the version at which a domain other than ONNX's is imported (repeatable)",
    )  # fmt: skip
    group.add_argument(
        "--capture",
        metavar="HOW",
        help="auto (torch.export, else a trace with a warning), export, trace or script",
    )
    group.add_argument(
        "--operator-export-type", metavar="TYPE", help="the treatment of operators that no plugin lowers: ONNX (an error), "
        "ONNX_FALLTHROUGH, ONNX_ATEN_FALLBACK, ONNX_ATEN or RAW",
    )  # fmt: skip
    group.add_argument("--fallback", metavar="torch", help="torch: keep operators that no plugin lowers, and run them in torch")
    group.add_argument(
        "--target",
        dest="runs_in",
        metavar="WHAT",
        help="onnxruntime (avoid calls without a kernel in ONNX Runtime), onnx (follow the specification) or a plugin's target",
    )
    group.add_argument("--debug", action="store_true", default=None, help="check the graph after every pass")
    group.add_argument(
        "--no-check-sizes", dest="check_sizes", action="store_false", default=None,
        help="do not trace a model with dynamic axes a second time, at other sizes",
    )  # fmt: skip


def prepare(options: argparse.Namespace, progress: Progress) -> Prepared:
    """Load the plugins, then the target.

    The command line overrides the arguments from a factory. The order matters: a target may put the working directory on
    `sys.path`, and no plugin may come from there.
    """
    progress.stage("loading torch and the plugins")
    from onnxexp._cli.model_target import Target
    from onnxexp._cli.stage_progress import Stages
    from onnxexp._plugins import loading

    chosen = PluginSelection.read(options)
    with flags_in_messages(options):
        loading.load(configured(options))
    progress.stage(f"loading {options.target}")
    target = Target.load(options.target, options.input, trusted=options.allow_pickle)
    shapes = dynamic_shapes(options.dynamic)
    overrides = {
        **dataclasses.asdict(chosen),
        "target": options.runs_in,
        "dynamic_shapes": shapes,
        "input_names": names(options.input_name),
        "output_names": names(options.output_name),
        "skip_passes": names(options.skip_pass),
        "custom_opsets": _versions(options.custom_opset),
        "capture": options.capture,
        "operator_export_type": options.operator_export_type,
        "fallback": options.fallback,
        "debug": options.debug,
        "check_sizes": options.check_sizes,
        "weights": options.weights,
    }
    arguments = {**target.options, **{name: value for name, value in overrides.items() if value not in (None, [], {})}}
    if shapes is not None:
        arguments.pop("dynamic_axes", None)
    if progress.shown:
        selected = config.load(plugins=arguments.get("plugins")).plugins
        arguments["plugins"] = [Stages(progress), *((...,) if selected is None else selected)]
    return Prepared(target.model, target.args, {**arguments, "kwargs": target.kwargs})


def _versions(given: list[str]) -> dict[str, int]:
    """Read the versions of domains. Raises OptionError where one has another form."""
    versions: dict[str, int] = {}
    for pair in names(given) or ():
        domain, equals, version = pair.rpartition("=")
        if not equals or not domain or not re.fullmatch(r"-?\d+", version.strip()):
            raise OptionError(f"--custom-opset {pair}: expected DOMAIN=VERSION, as in my.domain=2")
        versions[domain.strip()] = int(version)
    return versions


@contextlib.contextmanager
def flags_in_messages(options: argparse.Namespace) -> Iterator[None]:
    """Name the user's flag, inside the `with`, in an error on an argument of `export`."""
    try:
        yield
    except OptionError as error:
        name, rest = re.fullmatch(r"(\w*)(.*)", str(error), re.DOTALL).groups()  # type: ignore[union-attr] # it matches any text
        given, flag = _FLAGS.get(name, ("", ""))
        if not vars(options).get(given):
            raise
        raise OptionError(flag + re.sub(r"^\[(['\"])(.*?)\1\]", r" \2", rest)) from error
