"""dask.distributed: connect to a scheduler, check it, and run cells there."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, Security, as_completed

from onnxexp import OnnxExporterError, OptionError
from onnxexp_sweep.cell_list import Cell
from onnxexp_sweep.progress import SweepProgress, short_reason
from onnxexp_sweep.results import Results, row_of
from onnxexp_sweep.versions import PACKAGES, differences, installed
from onnxexp_sweep.worker import NAME, CellServers, EnvironmentChanged, run_cell

_SCHEMES = ("tcp", "tls", "ws", "wss", "ucx")
_LOOPBACK = "127.0.0.1"
_PATIENCE = 15.0
_MUST_AGREE = ("python", "dask", "distributed", "cloudpickle", "msgpack")
"""What the client, the scheduler and the workers need in one version: they exchange pickles."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """A cell with its outcome."""

    job: Mapping[str, Any]
    outcome: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Unfinished:
    """A cell without an outcome: its worker or the scheduler cannot run it."""

    job: Mapping[str, Any]
    reason: str


@contextlib.contextmanager
def connected(on: str, workers: int) -> Iterator[Client]:
    """Yield a client with workers that can run cells.

    Args:
        on: ``local`` for a cluster of this machine, or the address of a scheduler: ``dask://HOST:PORT`` or a scheme of dask's.
        workers: The number of workers of a local cluster.

    Raises OptionError where the scheduler cannot be reached, has no workers, or where versions differ.
    """
    with contextlib.ExitStack() as stack:
        if on == "local":
            client = stack.enter_context(_local(workers))
        else:
            client = stack.enter_context(_reached(on))
            logging.getLogger("distributed").setLevel(logging.CRITICAL)
        check_versions(client.get_versions(check=False), on)
        yield client


@contextlib.contextmanager
def _local(workers: int) -> Iterator[Any]:
    """Yield a client of a cluster that no other user of this machine can reach.

    Whoever can send a message to a dask process runs code in it. Its connections need the key of this cluster, which exists in
    memory only. The HTTP servers, which dask cannot leave out, listen on loopback and have no pages. What workers write to
    disk, pickles too, is in a folder of mode 0700.
    """
    security = Security.temporary()
    quiet: dict[str, list[str]] = {f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker", "nanny")}
    with (
        tempfile.TemporaryDirectory(prefix="onnxexp-sweep-", ignore_cleanup_errors=True) as folder,
        dask.config.set({"distributed.scheduler.worker-saturation": 1.0, "temporary-directory": folder, **quiet}),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, silence_logs=logging.CRITICAL, host=_LOOPBACK,
            protocol="tls://", security=security, local_directory=folder, dashboard_address=None,
            worker_dashboard_address=f"{_LOOPBACK}:0",
            scheduler_kwargs={"dashboard": False, "dashboard_address": f"{_LOOPBACK}:0"},
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


def _warn_of_open_scheduler(address: str) -> None:
    """Warn of a scheduler on another machine that is reached without TLS."""
    host = address.partition("://")[2].rpartition(":")[0].strip("[]")
    if address.startswith(("tls://", "wss://")) or host in ("localhost", "::1") or host.startswith("127."):
        return
    warnings.warn(
        f"--on {address}: dask sends and runs code without TLS there, and whoever reaches its ports runs code as you and as the "
        "owners of its workers; to fix this, start the scheduler and the workers with certificates, and give tls://HOST:PORT",
        stacklevel=3,
    )


def _reached(on: str) -> Client:
    scheme, separator, place = on.partition("://")
    if not separator or scheme not in ("dask", *_SCHEMES) or not re.fullmatch(r"\[?[\w.:-]+\]?:\d+", place):
        raise OptionError(
            f"--on {on}: expected local, dask://HOST:PORT, or an address of a dask scheduler such as tcp://HOST:PORT"
        )
    address = f"tcp://{place}" if scheme == "dask" else on
    _warn_of_open_scheduler(address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions: `check_versions` is stricter
            client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OptionError(
            f"--on {on}: no dask scheduler answers there ({type(error).__name__}: {_first_line(error)}); "
            "to fix this, start one by "
            "`dask scheduler`, check the host, the port and the firewall, and that both sides have one version of distributed"
        ) from error
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except (OSError, TimeoutError):
        client.close()
        raise OptionError(
            f"--on {on}: the scheduler has no workers; to fix this, start some by `dask worker {address}`"
        ) from None
    return client


def check_versions(found: Mapping[str, Any], on: str) -> None:
    """Check what `Client.get_versions` returns.

    Raises OptionError where a scheduler or worker has another version of Python or of a package that dask needs on both sides.
    """
    own = _comparable(found["client"])
    others = {"the scheduler": found["scheduler"], **{f"the worker {name}": each for name, each in found["workers"].items()}}
    problems = []
    for name, other in others.items():
        if other is None:
            problems.append(f"  {name} does not answer")
        elif changed := differences(own, _comparable(other)):
            problems.append(f"  this command and {name}: {'; '.join(changed)}")
    if problems:
        fix = f"install {', '.join(_MUST_AGREE)} in one version on all sides"
        raise OptionError("\n".join([f"--on {on}: versions differ, and nothing was run; to fix this, {fix}", *problems]))


def _comparable(versions: Mapping[str, Any]) -> dict[str, str]:
    found = {name: str(versions["packages"].get(name, "")) for name in _MUST_AGREE}
    return {**found, "python": ".".join(found["python"].split(".")[:2])}


def worker_versions(client: Client, on: str) -> dict[str, str]:
    """Return the versions of what the cells run with, which all workers must agree on.

    Raises OptionError where a worker lacks a package, or two workers differ.
    """
    try:
        found: dict[str, dict[str, str]] = client.run(installed)
    except Exception as error:
        raise OptionError(
            f"--on {on}: a worker cannot run cells ({type(error).__name__}: {_first_line(error)}); to fix this, install "
            "onnxexp-plugin-sweep, and what the models need, in the workers' environments"
        ) from error
    (first, versions), *others = found.items()
    problems = [f"  {worker} lacks {name}" for worker, each in found.items() for name in PACKAGES if not each[name]]
    for worker, each in others:
        if changed := differences(versions, each):
            problems.append(f"  {first} and {worker}: {'; '.join(changed)}")
    if problems:
        raise OptionError("\n".join([f"--on {on}: the workers do not have one set of packages, and nothing was run", *problems]))
    return versions


def finished_cells(
    client: Client,
    jobs: Sequence[Mapping[str, Any]],
    started: Callable[[Mapping[str, Any]], None],
    preload: Sequence[str] = (),
) -> Iterator[Finished | Unfinished]:
    """Run jobs, and yield each cell when it ends.

    dask runs a cell again whose worker is killed. After more deaths than its setting `allowed-failures` has, the cell's status
    is "lost".

    Args:
        client: Where to run them.
        jobs: From `onnxexp_sweep.cell_list.Cell.job`.
        started: Called with a dict with ``key``, ``name`` and ``place`` whenever a worker begins a cell, in another thread.
        preload: Modules that each worker imports once, before its first cell.
    """
    by_key = {f"{NAME}-{job['key']}": job for job in jobs}

    def on_event(event: tuple[float, Mapping[str, Any]]) -> None:
        if f"{NAME}-{event[1]['key']}" in by_key:  # else it is a cell of another sweep on this scheduler
            started(event[1])

    client.register_plugin(CellServers(preload))
    client.subscribe_topic(NAME, on_event)
    futures = client.map(run_cell, list(by_key.values()), key=list(by_key), pure=False)
    try:
        for future in as_completed(futures, loop=client.loop):
            yield _ended(future, by_key[future.key])
            future.release()
    finally:
        if client.status == "running":  # else the scheduler has gone, and has taken the tasks with it
            client.unsubscribe_topic(NAME)
            client.cancel(futures)
            client.unregister_worker_plugin(NAME)  # it ends the processes of cells that still run


def _ended(future: Any, job: Mapping[str, Any]) -> Finished | Unfinished:
    if future.status == "finished":
        return Finished(job, future.result())
    if future.status == "cancelled":
        return Unfinished(job, "the scheduler has gone")
    error = future.exception()
    if isinstance(error, KilledWorker):
        reason = f"every worker that ran it died, the last one was {error.last_worker.address}"
        return Finished(job, {"status": "lost", "step": "start", "reason": reason})
    if isinstance(error, (EnvironmentChanged, OnnxExporterError)):
        return Unfinished(job, str(error))
    return Unfinished(job, f"{type(error).__name__}: {_first_line(error)}")


def _first_line(error: Any) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]


_GIVE_UP = 8
"""After so many cells that cannot be run, and none that can, the others are not tried."""


@dataclasses.dataclass(frozen=True)
class Done:
    """What a sweep did.

    Attributes:
        skipped: The number of cells that had a result.
        others: The number of results in the folder that are of other cells, or of these with other versions.
        counts: The number of cells that ran by status.
        failures: The status, name and reason of each cell that is not "ok".
        unfinished: The name of each cell without a result, and the reason.
        seconds: The time of everything, the start of local workers too.
    """

    skipped: int
    others: int
    counts: Mapping[str, int]
    failures: Sequence[tuple[str, str, str]]
    unfinished: Sequence[tuple[str, str]]
    seconds: float


def sweep(
    cells: Sequence[Cell], folder: Path, *, on: str, workers: int, preload: Sequence[str] = (), retry_failed: bool = False
) -> Done:
    """Run the cells that have no result, and append each result to a folder.

    A result with other versions than the workers' does not count.

    This process writes the results. So the workers need no access to the folder, and it has one writer; what is lost when this
    process is killed are the cells that run at that moment, and these run again.

    Args:
        cells: The cells.
        folder: The folder of results.
        on: ``local``, or the address of a scheduler.
        workers: The number of local workers.
        preload: Modules that each worker imports once, before its first cell.
        retry_failed: Run cells again whose result is not "ok".

    Raises OptionError where the scheduler, the workers or the folder cannot be used.
    """
    begin = time.perf_counter()
    failures: list[tuple[str, str, str]] = []
    unfinished: list[tuple[str, str]] = []
    with Results(folder) as results, connected(on, workers) as client:
        versions = worker_versions(client, on)
        keys = {cell.key(versions): cell for cell in cells}
        others = len(results.done() - keys.keys())
        done = results.done(failed_too=not retry_failed)
        jobs = {key: cell.job(versions) for key, cell in keys.items() if key not in done}
        with SweepProgress(len(jobs), len(cells) - len(jobs)) as progress:
            left = dict(jobs)
            for each in finished_cells(client, list(jobs.values()), progress.started, preload) if jobs else ():
                del left[each.job["key"]]
                if isinstance(each, Unfinished):
                    unfinished.append((each.job["name"], each.reason))
                    if len(unfinished) == _GIVE_UP and not progress.counts:
                        break
                    continue
                outcome: Mapping[str, Any] = each.outcome
                results.append(row_of(each.job, outcome))
                progress.ended(each.job["key"], each.job["name"], outcome)
                if outcome["status"] != "ok":
                    failures.append((outcome["status"], each.job["name"], short_reason(outcome)))
    unfinished += [(job["name"], "none of the cells before it could be run") for job in left.values()]
    return Done(len(cells) - len(jobs), others, dict(progress.counts), failures, unfinished, time.perf_counter() - begin)
