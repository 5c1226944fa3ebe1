"""The ratios of a model's figures, and their targets."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterable

from .results import ModelResult

MB = 1e6
_LARGE = 200 * MB
"""The weights of 50 million float32 parameters."""
_SMALL = 4 * MB
"""The weights of 1 million float32 parameters."""
_SMALL_SECONDS = 0.010
"""The time within which a small model's trace is fast enough, however fast the peer is."""
_MEMORY_FROM = 32 * MB
"""The least size of the weights for the memory target; in smaller models, torch.export's graph and Python dominate."""


@dataclasses.dataclass(frozen=True)
class Target:
    """A figure of a model and its limit.

    Attributes:
        key: A short name.
        text: A description.
        figure: Returns the figure, None if a model has none.
        limit: The largest accepted value.
    """

    key: str
    text: str
    figure: Callable[[ModelResult], float | None]
    limit: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a target: the figure of each model."""

    target: Target
    figures: dict[str, float]

    @property
    def missed(self) -> dict[str, float]:
        """The figures over the limit."""
        return {name: figure for name, figure in self.figures.items() if figure > self.target.limit}


def over_capture(model: ModelResult) -> float | None:
    """Return the seconds of onnxexp's export minus those of torch.export.export alone."""
    own = model.onnxexp
    if own.reason is not None or own.capture_seconds is None:
        return None
    return own.seconds - own.capture_seconds


def after_capture(model: ModelResult) -> float | None:
    """Return `over_capture` as a share of torch.export's own time."""
    over, capture = over_capture(model), model.onnxexp.capture_seconds
    return None if over is None or capture is None else over / capture


def time_ratio(peer: str) -> Callable[[ModelResult], float | None]:
    """Return a figure: onnxexp's export time divided by the peer's."""
    return lambda model: _ratio(model, peer, lambda own, other: own.seconds / other.seconds)


def first_ratio(peer: str) -> Callable[[ModelResult], float | None]:
    """Return a figure: onnxexp's time of a first export divided by the peer's."""
    return lambda model: _ratio(model, peer, lambda own, other: own.first / other.first)


def size_ratio(peer: str) -> Callable[[ModelResult], float | None]:
    """Return a figure: onnxexp's file size divided by the peer's."""
    return lambda model: _ratio(model, peer, lambda own, other: own.file / other.file)


def growth_ratio(peer: str) -> Callable[[ModelResult], float | None]:
    """Return a figure: onnxexp's memory growth divided by the peer's."""
    return lambda model: _ratio(model, peer, lambda own, other: own.growth / max(other.growth, 1))


def latency_ratio(peer: str) -> Callable[[ModelResult], float | None]:
    """Return a figure: onnxexp's latency divided by the peer's."""
    return lambda model: _ratio(model, peer, lambda own, other: own.latency_ratio(other))


def _ratio(model: ModelResult, peer: str, ratio: Callable[..., float]) -> float | None:
    if model.onnxexp.reason is not None or peer not in model.peers:
        return None
    return ratio(model.onnxexp, model.peers[peer])


def growth_over_capture(model: ModelResult) -> float | None:
    """Return the memory growth beyond that of a capture, as a share of the weights."""
    own, capture = model.onnxexp, model.capture
    if own.reason is not None or capture.reason is not None:
        return None
    return (own.growth - capture.growth) / own.weights


def judged_growth(model: ModelResult) -> float | None:
    """Return `growth_over_capture` if the weights are large enough."""
    return growth_over_capture(model) if model.onnxexp.weights >= _MEMORY_FROM else None


def best_latency_ratio(model: ModelResult) -> float | None:
    """Return the latency divided by the better peer's: the median over the processes.

    The other processes decide which peer is the better one. If the same figures decided it, the noise of one of two equal files
    would count against onnxexp.
    """
    if model.onnxexp.reason is not None or not model.peers:
        return None
    by_peer = [model.onnxexp.latency_ratios(peer) for peer in model.peers.values()]
    passes = range(len(by_peer[0]))
    if len(passes) == 1:
        return max(ratios[0] for ratios in by_peer)
    return statistics.median(
        max(by_peer, key=lambda ratios: statistics.median(ratios[:one] + ratios[one + 1 :]))[one] for one in passes
    )


def nodes_over_best(model: ModelResult) -> float | None:
    """Return the number of nodes minus the better peer's."""
    if model.onnxexp.reason is not None or not model.peers:
        return None
    return model.onnxexp.nodes - min(peer.nodes for peer in model.peers.values())


def milliseconds_over_capture(model: ModelResult) -> float | None:
    """Return the milliseconds over capture, for the model "linear" only."""
    over = over_capture(model)
    return None if over is None or model.name != "linear" else over * 1e3


def bert_after_capture(model: ModelResult) -> float | None:
    """Return `after_capture`, for BERT-base only."""
    return after_capture(model) if model.name == "bert-base" else None


def trace_time(model: ModelResult) -> float | None:
    """Return the time of onnxexp's traced export divided by dynamo=False's."""
    peer = model.peers.get("script")
    return None if model.trace is None or peer is None else model.trace.seconds / peer.seconds


def trace_twice(model: ModelResult) -> float | None:
    """Return the time of an export with two traces divided by that with one."""
    if model.trace is None or model.checked_trace is None:
        return None
    return model.checked_trace.seconds / model.trace.seconds


def trace_latency(model: ModelResult) -> float | None:
    """Return the traced file's latency divided by dynamo=False's."""
    peer = model.peers.get("script")
    return None if model.trace is None or peer is None else model.trace.latency_ratio(peer)


def trace_nodes(model: ModelResult) -> float | None:
    """Return the nodes of the traced file minus dynamo=False's."""
    peer = model.peers.get("script")
    return None if model.trace is None or peer is None else float(model.trace.nodes - peer.nodes)


def slow_trace_time(model: ModelResult) -> float | None:
    """Return `trace_time`, or 0 for a trace of at most 10 ms."""
    return 0.0 if model.trace is not None and model.trace.seconds <= _SMALL_SECONDS else trace_time(model)


def _of_size(
    figure: Callable[[ModelResult], float | None], above: float = 0, below: float = math.inf
) -> Callable[[ModelResult], float | None]:
    """Restrict a figure to models whose weights lie between two numbers of bytes."""
    return lambda model: figure(model) if above <= model.onnxexp.weights < below else None


TARGETS = [
    Target("failures", "onnxexp exports the model, and the file agrees with eager at two sizes",
           lambda model: float(model.onnxexp.reason is not None), 0),
    Target("after capture", "time after torch.export, as a share of torch.export's time, on BERT-base", bert_after_capture, 0.3),
    Target("export time", "the whole export ÷ dynamo=True's", time_ratio("dynamo"), 0.35),
    Target("single Linear", "milliseconds over torch.export's own time, in a warm process", milliseconds_over_capture, 15),
    Target("memory", f"peak growth over capture's ÷ weights (models of {_MEMORY_FROM / MB:.0f} MB and more)", judged_growth, 0.3),
    Target("latency", "ONNX Runtime latency ÷ the better peer's", best_latency_ratio, 1.03),
    Target("nodes", "nodes (Constant aside) more than the better peer's", nodes_over_best, 0),
    Target("trace, large", "export by trace ÷ dynamo=False's, over 50 M parameters", _of_size(trace_time, above=_LARGE), 0.5),
    Target("trace, medium", "the same, 1 M to 50 M parameters", _of_size(trace_time, _SMALL, _LARGE), 1.0),
    Target("trace, small", "the same, under 1 M parameters; 0 where the trace takes at most 10 ms",
           _of_size(slow_trace_time, below=_SMALL), 2.0),
    Target("trace, twice", "a traced export with the second trace, at other sizes, ÷ one without", trace_twice, 2.0),
    Target("trace, latency", "the traced file's ONNX Runtime latency ÷ dynamo=False's", trace_latency, 1.03),
    Target("trace, nodes", "the traced file's nodes more than dynamo=False's", trace_nodes, 0),
]  # fmt: skip


def verdicts(models: Iterable[ModelResult]) -> list[Verdict]:
    """Evaluate every target on the models, and the geometric mean of the latencies."""
    models = list(models)
    found = [Verdict(target, _figures(models, target.figure)) for target in TARGETS]
    latencies = _figures(models, best_latency_ratio)
    if latencies:
        mean = Target("latency, mean", "the geometric mean of that ratio over all models", best_latency_ratio, 1.0)
        found.append(Verdict(mean, {"all": geometric_mean(latencies.values())}))
    return [verdict for verdict in found if verdict.figures]


def _figures(models: Iterable[ModelResult], figure: Callable[[ModelResult], float | None]) -> dict[str, float]:
    return {model.name: value for model in models if (value := figure(model)) is not None}


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean, exp(mean(log))."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))
