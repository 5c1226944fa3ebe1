"""The command `onnxexp doctor`: check the installation and list its problems."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import platform
from collections.abc import Iterator, Mapping

from importlib_metadata import PackageNotFoundError, distribution, version
from packaging import requirements as standard
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from onnxexp import _cli as cli
from onnxexp._cli import plugin_commands
from onnxexp._cli.text_or_json import Output, Progress
from onnxexp._errors import OnnxExporterError, PluginError
from onnxexp._plugins.discovery import damaged, discover
from onnxexp._request import config
from onnxexp._version import MAX_OPSET, __version__


@dataclasses.dataclass(frozen=True)
class Finding:
    """A result of the check.

    A "problem" prevents exports, a "note" does not.
    """

    kind: str
    text: str


EXAMPLES = (
    ("onnxexp doctor", "problems of the installation, each with its fix"),
    ("onnxexp doctor --json", "the same for a bug report"),
)
"""Command lines, and what they do, for `--help`."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no arguments."""
    del parser


def run(options: argparse.Namespace, output: Output) -> int:
    """Print versions and findings, and return 1 if a finding is a problem."""
    del options
    with Progress() as progress:
        progress.stage("checking the installation")
        versions = {"onnxexp": __version__, "python": installed("python"), **{name: installed(name) for name in PACKAGES}}
        findings = [
            *_requirements(),
            *_untested(versions),
            *_imports(),
            *_damaged(),
            *_plugins(),
            *_commands(),
            *_schemas(),
            *_runtime(),
        ]
    required = _required_versions()
    output.table(
        ["package", "installed", "needed", "tested with"],
        [[name, found or "no", required.get(name, ""), _tested(name)] for name, found in versions.items()],
    )
    found = discover()
    if found:
        output.line()
        output.table(["plugin", "distribution", "version"], [[each.name, each.distribution, each.version] for each in found])
    output.line()
    for finding in findings:
        output.line(f"{finding.kind}: {finding.text}", "red" if finding.kind == "problem" else "yellow")
    problems = sum(finding.kind == "problem" for finding in findings)
    output.line(
        f"{problems} problem{'s' if problems != 1 else ''} found" if problems else "no problems found",
        "red" if problems else "green",
    )
    output.document(
        {
            "ok": not problems,
            "versions": {name: version or None for name, version in versions.items()},
            "needed": required,
            "tested": list(TESTED),
            "plugins": [{"name": each.name, "distribution": each.distribution, "version": each.version} for each in found],
            "findings": [dataclasses.asdict(finding) for finding in findings],
        }
    )
    return 1 if problems else 0


def _damaged() -> Iterator[Finding]:
    """Find distributions with unreadable metadata, whose plugins are not found."""
    for each in damaged():
        text = f"the metadata in {each.folder} cannot be read ({each.reason}), so plugins of it are not found; reinstall it"
        yield Finding("note", text)


def _tested(package: str) -> str:
    return ", ".join(dict.fromkeys(combination[package] for combination in TESTED if package in combination))


def _required_versions() -> dict[str, str]:
    """Collect the requirements of onnxexp by package.

    The requirement of an extra counts only if nothing else requires the package.
    """
    required: dict[str, str] = {}
    for requirement in sorted(requirements("onnxexp"), key=lambda each: bool(each.extra)):
        if requirement.versions:
            required.setdefault(requirement.package, str(requirement.versions))
    return required


def _requirements() -> Iterator[Finding]:
    """Find the requirements of onnxexp and the plugins that are not met."""
    if not requirements("onnxexp"):
        yield Finding("note", "onnxexp runs from its sources: without metadata, its requirements are unknown")
    owners = dict.fromkeys(["onnxexp", *(found.distribution for found in discover())])
    for owner in owners:
        try:
            yield from _unmet(owner)
        except ValueError as error:  # packaging's InvalidRequirement, InvalidSpecifier and InvalidVersion
            yield Finding("problem", f"the requirements of {owner} cannot be checked: {error}; reinstall it")


def _unmet(owner: str) -> Iterator[Finding]:
    """Find the requirements of one distribution that the environment does not meet."""
    for requirement in dict.fromkeys(requirements(owner)):
        package = requirement.package
        present = installed(package)
        needed = f"{package} {requirement.versions}".rstrip()
        if not present and not requirement.extra:
            yield Finding("problem", f"{owner} needs {needed}, which is not installed: `pip install {package}`")
        elif present and not requirement.met_by(present):
            kind = "note" if requirement.extra and package not in PACKAGES else "problem"
            fix = "use another" if package == "python" else f"`pip install '{package}{requirement.versions}'`"
            yield Finding(kind, f"{owner} needs {needed}, but {present} is installed: {fix}")


def _untested(versions: Mapping[str, str]) -> Iterator[Finding]:
    """Find versions that the metadata allows but the tests do not cover."""
    for package, present in versions.items():
        known = [combination[package] for combination in TESTED if package in combination]
        if present and known and not any(SpecifierSet(f"=={each}.*").contains(present, prereleases=True) for each in known):
            yield Finding("note", f"{package} {present} has not been tested with onnxexp {__version__}, {', '.join(known)} has")


def _imports() -> Iterator[Finding]:
    """Find installed packages that cannot be imported."""
    for package in ("torch", "onnx", "onnx-ir", "pluggy"):
        try:
            importlib.import_module(package.replace("-", "_"))
        except Exception as error:  # noqa: BLE001 - a broken installation may raise anything
            yield Finding("problem", f"{package} cannot be imported: {type(error).__name__}: {error}; reinstall it")


def _plugins() -> Iterator[Finding]:
    """Find refused, broken and conflicting plugins, and an unreadable configuration."""
    try:
        from onnxexp._cli.loaded_plugins import load_all
        from onnxexp._plugins.loading import load

        settings = config.load()
        states = load_all(settings)
    except (OnnxExporterError, ImportError) as error:
        yield Finding("problem", str(error))
        return
    if not states:
        yield Finding("problem", "no plugin is installed, so no operator can be lowered: `pip install onnxexp-plugin-aten`")
    sound = True
    for state, plugin in states:
        if isinstance(plugin, PluginError):
            sound = False
            yield Finding("problem", str(plugin))
        elif state.state == "refused":
            sound = False
            yield Finding("problem", f"the plugin {state.found.name!r} ({state.found.origin}) is refused: {state.reason}")
    if sound:
        try:
            load(dataclasses.replace(settings, strict_plugins=True))
        except OnnxExporterError as error:
            yield Finding("problem", str(error))


def _commands() -> Iterator[Finding]:
    """Find commands of plugins that cannot be called."""
    with contextlib.suppress(OnnxExporterError):  # listed among the plugins' findings
        yield from (Finding("problem", text) for text in plugin_commands.problems(cli.COMMANDS))


def _runtime() -> Iterator[Finding]:
    """Check whether models can be run here, and up to which opset."""
    if not installed("onnxruntime"):
        yield Finding(
            "problem", "onnxruntime is not installed, so no model can be run or verified: `pip install onnxexp[runtime]`"
        )
        return
    try:
        from onnxexp._model.onnxruntime_session import last_opset

        last = last_opset()
    except Exception as error:  # noqa: BLE001 - as for the other packages
        yield Finding("problem", f"onnxruntime cannot be used: {type(error).__name__}: {error}; reinstall it")
        return
    written = min(MAX_OPSET, _newest_opset())
    yield from _opset_limit(
        last, f"onnxruntime {installed('onnxruntime')} loads models up to opset {last}", written,
        f"files of later opsets (up to {written} can be written) cannot be run or verified here",
    )  # fmt: skip


def _schemas() -> Iterator[Finding]:
    """Check up to which opset models can be exported here."""
    with contextlib.suppress(ImportError):  # listed among the imports' findings
        newest = _newest_opset()
        yield from _opset_limit(
            newest, f"onnx {installed('onnx')} knows opsets up to {newest}", MAX_OPSET,
            f"models of later opsets (up to {MAX_OPSET}) cannot be exported here",
        )  # fmt: skip


def _newest_opset() -> int:
    import onnx

    return int(onnx.defs.onnx_opset_version())


def _opset_limit(last: int, ours: str, wanted: int, consequence: str) -> Iterator[Finding]:
    """Compare the last opset of a package with the configured and the required one."""
    try:
        target = config.load().opset
    except OnnxExporterError:  # listed among the plugins' findings
        return
    if target > last:
        yield Finding("problem", f"{ours}, but opset {target} is configured: `onnxexp config` shows where")
    elif last < wanted:
        yield Finding("note", f"{ours}; {consequence}")


_COLUMNS = ("python", "torch", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "pluggy")
_ROWS = (
    "3.11 2.13 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.15 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.11 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.12 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.14 1.23 1.1 1.32 0.7 1.7",
    "3.13 2.15 1.23 1.1 1.32 0.7 1.7",
    "3.10 2.14 1.23 1.1 1.23 0.7 1.7",
    "3.12 2.15 1.23 1.1 1.32 0.7 1.7",
    "3.11 2.11 1.17 1.1 1.20 0.7 1.5",
)
TESTED: tuple[dict[str, str], ...] = tuple(dict(zip(_COLUMNS, row.split(), strict=True)) for row in _ROWS)
"""The rows of docs/reference/compatibility.md that are green; other versions that the metadata allows should work."""

PACKAGES = ("torch", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "pluggy")


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A requirement in a distribution's metadata (``torch``, ``>=2.11``).

    `extra` is set if only that extra needs the package.
    """

    package: str
    versions: SpecifierSet
    extra: str = ""

    def met_by(self, present: str) -> bool:
        """Check a version, also a pre-release such as a nightly build."""
        return self.versions.contains(present, prereleases=True)


def installed(package: str) -> str:
    """Return a distribution's version, or "" if it is not installed.

    For ``python``, the version of the interpreter is returned.
    """
    if package == "python":
        return platform.python_version()
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def requirements(name: str) -> list[Requirement]:
    """Read a distribution's requirements for this platform.

    Returns an empty list if the distribution is not installed.

    Raises:
        packaging.requirements.InvalidRequirement, packaging.specifiers.InvalidSpecifier: The metadata is malformed.
    """
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return []
    python = found.metadata.get("Requires-Python")
    listed = [Requirement("python", SpecifierSet(python))] if python else []
    extras = ("", *(found.metadata.get_all("Provides-Extra") or ()))
    for each in map(standard.Requirement, found.requires or ()):
        applicable = (extra for extra in extras if each.marker is None or each.marker.evaluate({"extra": extra}))
        if (extra := next(applicable, None)) is not None:
            listed.append(Requirement(canonicalize_name(each.name), each.specifier, extra))
    return listed
