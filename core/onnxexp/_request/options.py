"""The options of an export, read and checked before the capture."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import onnx

from onnxexp._errors import OptionError
from onnxexp._request.config import TARGETS, Config
from onnxexp._request.training_mode import TrainingMode
from onnxexp._suggest import nearest

P = ParamSpec("P")
R = TypeVar("R")

_CAPTURES = ("auto", "export", "trace", "script")


def refuse_unknown(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function raise OptionError for keywords that it lacks."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs.keys() - known.keys():
            fix = nearest(name, known) or "; onnxexp_torch_onnx.export takes torch.onnx's former arguments"
            raise OptionError(f"{function.__name__} has no argument {name!r}{fix}")
        return function(*args, **kwargs)

    return call


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of one export, apart from the model and its inputs.

    Most hooks take the options as their parameter `options`.

    Attributes:
        opset: The target opset of ONNX's default domain.
        training: The mode in which the model is captured.
        custom_opsets: The versions at which other domains are imported.
        fold: Whether computations on constants are folded.
        skip_passes: Passes that do not run, as ``name`` or ``plugin/name``.
        debug: Whether the graph is checked after every pass.
        target: "onnxruntime" avoids operators and dtypes for which ONNX Runtime has no kernel, or a wrong one. "onnx" follows
            the specification alone. A plugin's own target, ``onnxruntime-...``, is "onnxruntime" here.
        capture: The way of the capture: "auto", "export", "trace" or "script".
        check_sizes: Whether a model with dynamic axes is traced twice, at two sets of sizes.
        claims: The operators for which the tables of the selected plugins have symbolics, as they were registered.
        user_claims: Those of plugins that the user passed to the call. A capture leaves such operators as they are.
    """

    opset: int
    training: TrainingMode = TrainingMode.EVAL
    custom_opsets: dict[str, int] = dataclasses.field(default_factory=dict)
    fold: bool = True
    skip_passes: tuple[str, ...] = ()
    debug: bool = False
    target: str = TARGETS[0]
    capture: str = "auto"
    check_sizes: bool = True
    claims: frozenset[str] = frozenset()
    user_claims: frozenset[str] = frozenset()

    @classmethod
    def read(
        cls,
        config: Config,
        *,
        claims: tuple[frozenset[str], frozenset[str]],
        capture: str,
        training: Any,
        custom_opsets: Mapping[str, int] | None,
        export_params: bool,
        keep_initializers_as_inputs: bool,
        do_constant_folding: bool,
    ) -> Options:
        """Check the arguments of `export`.

        `claims` are the operators of all tables, and of those that the user passed.

        Raises OptionError for malformed or contradictory ones.
        """
        if capture not in _CAPTURES:
            raise OptionError(
                f"capture is {capture!r}{nearest(str(capture), _CAPTURES)}; it may be {' or '.join(map(repr, _CAPTURES))}"
            )
        if not export_params and keep_initializers_as_inputs:
            raise OptionError(
                "export_params=False leaves no initializers that keep_initializers_as_inputs=True could list: give one of the two"
            )
        if not isinstance(custom_opsets or {}, Mapping):
            raise OptionError(f'custom_opsets is {custom_opsets!r}; it is a dict of versions, such as {{"my.domain": 1}}')
        domains = dict(custom_opsets or {})
        for domain, version in domains.items():
            if domain in ("", "ai.onnx"):
                raise OptionError("custom_opsets is for other domains; opset_version is the version of ONNX's own")
            if type(version) is not int or version < 1:
                raise OptionError(f"custom_opsets[{domain!r}] is {version!r}; a domain's version is a whole number from 1 on")
        if config.opset > (newest := onnx.defs.onnx_opset_version()):
            raise OptionError(
                f"onnx {onnx.__version__} knows opsets up to {newest}, the target is opset {config.opset}; to fix this, run "
                f"pip install --upgrade onnx, or opset_version={newest}"
            )
        return cls(
            opset=config.opset,
            training=TrainingMode.read(training, "training"),
            custom_opsets=domains,
            fold=do_constant_folding,
            skip_passes=config.skip_passes,
            debug=config.debug,
            target=config.target.partition("-")[0],
            capture=capture,
            check_sizes=config.check_sizes,
            claims=claims[0],
            user_claims=claims[1],
        )
