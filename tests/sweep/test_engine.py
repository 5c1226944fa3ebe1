"""The engine of a sweep: who can reach its processes."""

from __future__ import annotations

import stat
import urllib.error
import urllib.request
import warnings
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client, Security

from onnxexp import OptionError
from onnxexp_sweep import engine


def listening() -> list[tuple[str, int]]:
    """List the addresses on which this process and its children listen for TCP."""
    own = psutil.Process()
    connections = [each for one in (own, *own.children(recursive=True)) for each in one.net_connections("tcp")]
    return [(each.laddr.ip, each.laddr.port) for each in connections if each.status == psutil.CONN_LISTEN]


def temporary_folder(dask_worker: Any) -> str:
    return str(dask_worker.local_directory)


def test_no_other_user_reaches_a_local_cluster() -> None:
    before = set(listening())
    with engine.connected("local", 1) as client:
        found = sorted(set(listening()) - before)
        scheduler = str(client.scheduler_info()["address"])
        others = client.run(lambda dask_worker: dask_worker.address).values()
        assert len(found) >= 4 and {host for host, _ in found} == {"127.0.0.1"}, found
        assert all(address.startswith("tls://127.0.0.1:") for address in (scheduler, *others))
        with pytest.raises((OSError, TimeoutError)):
            Client(scheduler.replace("tls", "tcp"), timeout=1, set_as_default=False)
        with pytest.raises((OSError, TimeoutError)):
            Client(scheduler, security=Security.temporary(), timeout=1, set_as_default=False)
        for _, port in found:
            for page in ("", "info/main/workers.html", "metrics", "json/index.html", "status", "health"):
                with pytest.raises((urllib.error.URLError, OSError)):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5)
        (folder,) = client.run(temporary_folder).values()
        root = next(each for each in Path(folder).parents if each.name.startswith("onnxexp-sweep-"))
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert not root.exists()


@pytest.mark.parametrize("address", ["dask://192.0.2.1:8786", "tcp://192.0.2.1:8786", "tcp://[2001:db8::1]:8786"])
def test_a_scheduler_without_tls_on_another_host_is_a_warning(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Client", _refused)
    with pytest.raises(OptionError), pytest.warns(UserWarning, match=r"without TLS.*to fix this, .*tls://HOST:PORT"):
        engine._reached(address)


@pytest.mark.parametrize("address", ["tls://192.0.2.1:8786", "tcp://127.0.0.1:8786", "dask://localhost:8786", "tcp://[::1]:8786"])
def test_a_scheduler_that_no_one_else_reaches_is_no_warning(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Client", _refused)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(OptionError):
            engine._reached(address)


def _refused(*_: Any, **__: Any) -> None:
    raise OSError("refused")
