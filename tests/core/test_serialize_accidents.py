"""After a failed write the old file is there; memory stays flat during a write."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch

from onnxexp._errors import SerializeError
from onnxexp._serialize import WriteOptions, atomic_file, save
from tests.core.tensor_models import EXTERNAL, model_of, values
from tests.faults.size_limit import size_limit


class Accident(ir.Tensor[Any]):
    """An initializer whose bytes cannot be had."""

    def tobytes(self) -> bytes:
        raise self.error

    error: BaseException = RuntimeError("no bytes")


@pytest.mark.parametrize(
    "error", [RuntimeError("no bytes"), KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")], ids=repr
)
def test_an_error_leaves_what_was_there(error: BaseException, tmp_path: Path) -> None:
    bad = Accident(np.zeros(1 << 20, np.float32))
    bad.error = error
    model = model_of(a=torch.randn(3000, 1000).t(), bad=bad, z=torch.randn(3000, 1000).t())
    for options in (WriteOptions(), EXTERNAL):
        (tmp_path / "model.onnx").write_text("old")
        expected = SerializeError if isinstance(error, OSError) else type(error)
        with pytest.raises(expected):
            save(model, tmp_path / "model.onnx", options)
        assert os.listdir(tmp_path) == ["model.onnx"]
        assert (tmp_path / "model.onnx").read_text() == "old"


def test_a_file_that_appears_meanwhile_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with atomic_file.new_file(str(path)) as file:
        file.file.write(b"ours")
        path.write_bytes(b"another's")
        file.publish()
    assert path.read_bytes() == b"ours"
    assert os.listdir(tmp_path) == ["model.onnx"]


def forbidden(*_: Any, **__: Any) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


class Crash(BaseException):
    """The machine stops: nothing of us runs after it, no cleaning up either."""


@pytest.fixture
def crash_before(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Stop before the n-th change of a folder's entries, and before all later ones."""

    def install(steps: int) -> None:
        done = 0

        def counted(change: Callable[..., None]) -> Callable[..., None]:
            def run(*args: Any, **kwargs: Any) -> None:
                nonlocal done
                done += 1
                if done > steps:
                    raise Crash
                change(*args, **kwargs)

            return run

        for name in ("replace", "link", "unlink"):
            monkeypatch.setattr(os, name, counted(getattr(os, name)))

    return install


@pytest.mark.parametrize("before", ["nothing", "model", "pair", "data"])
@pytest.mark.parametrize("steps", range(10))
def test_a_crash_never_leaves_a_model_with_foreign_data(
    before: str, steps: int, tmp_path: Path, crash_before: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    old, new = torch.full((500,), 1.0), torch.full((500,), 2.0)
    if before != "nothing":
        save(model_of(a=old), path, WriteOptions(external_data=before != "model"))
    if before == "data":
        path.unlink()
    crash_before(steps)
    crashed = False
    try:
        save(model_of(a=new), path, EXTERNAL)
    except Crash:
        crashed = True
    monkeypatch.undo()
    assert crashed or steps >= 2
    if path.exists():
        found = values(path)["a"]
        assert np.array_equal(found, new) or (crashed and before in {"model", "pair"} and np.array_equal(found, old))
    else:
        assert crashed and before in {"nothing", "data"}
    if not crashed:
        assert sorted(os.listdir(tmp_path)) == ["model.onnx", "model.onnx.data"]
    save(model_of(a=new), path, EXTERNAL)
    assert np.array_equal(values(path)["a"], new)


def test_replacing_a_pair_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    save(model_of(a=torch.full((500,), 1.0)), path, EXTERNAL)
    monkeypatch.setattr(os, "link", forbidden)
    new = torch.full((500,), 2.0)
    saved = save(model_of(a=new), path, EXTERNAL)
    assert saved.paths[1].name.startswith("model.onnx.data.") and saved.paths[1].exists()
    assert np.array_equal(values(path)["a"], new)


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)


def test_a_kill_leaves_the_old_file(tmp_path: Path) -> None:
    program = """
        import sys, time
        import numpy as np, onnx_ir as ir, torch
        from onnxexp._serialize import save
        from tests.core.tensor_models import model_of

        class Slow(ir.Tensor):
            def tobytes(self):
                print("in the middle", flush=True)
                time.sleep(60)

        save(model_of(a=torch.randn(3000, 1000), b=Slow(np.zeros(100000)), c=torch.randn(3000, 1000)), sys.argv[1])
    """
    path = tmp_path / "model.onnx"
    save(model_of(a=torch.full((500,), 1.0)), path)
    old = path.read_bytes()
    with start(program, str(path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle\n"
        process.kill()
    assert path.read_bytes() == old
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".onnxexp-")] == ["model.onnx"]


@pytest.fixture
def little_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a little file system needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("reserve", [True, False])
@pytest.mark.parametrize("options", [WriteOptions(), EXTERNAL], ids=["one", "two"])
def test_full_disk(reserve: bool, options: WriteOptions, little_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not reserve:
        monkeypatch.setattr(atomic_file.NewFile, "reserve", lambda self, size: None)
    path = little_disk / "model.onnx"
    save(model_of(a=torch.full((500,), 1.0)), path, options)
    before = {name: (little_disk / name).read_bytes() for name in os.listdir(little_disk)}
    with pytest.raises(
        SerializeError, match=r"no space left: it needs 8\.\d MB, and .*disk has 4\.2 MB free. Free some space.*unharmed"
    ):
        save(model_of(a=torch.randn(2000, 1050)), path, options)
    assert {name: (little_disk / name).read_bytes() for name in os.listdir(little_disk)} == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_as_the_system_tells_it(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(SerializeError, match=r"no space left.*needs 8.4 MB.*free. Free some space, or choose another place.$"):
        save(model_of(a=torch.randn(2000, 1050).t()), tmp_path / "model.onnx")
    assert not os.listdir(tmp_path)


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    with size_limit(1 << 20), pytest.raises(SerializeError, match=r"file of 8.4 MB is larger.*ulimit"):
        save(model_of(a=torch.randn(2000, 1050)), tmp_path / "model.onnx")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("how", ["path", *(pytest.param(how, marks=pytest.mark.full) for how in ("external", "stream"))])
def test_memory_stays_flat(how: str, tmp_path: Path) -> None:
    program = """
        import sys, resource, torch
        from onnxexp._serialize import WriteOptions, save
        from tests.core.tensor_models import model_of

        path, how = sys.argv[1:]
        model = model_of(**{f"w{i}": torch.randn(3072, 768).t() for i in range(32)})
        save(model_of(a=torch.randn(3072, 768).t()), path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if how == "stream":
            with open(path, "wb") as file:
                saved = save(model, file)
        else:
            saved = save(model, path, WriteOptions(external_data=how == "external"))
        assert saved.bytes > 300e6
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    with start(program, str(tmp_path / "model.onnx"), how) as process:
        assert process.stdout is not None
        growth = int(process.stdout.readline()) / 1024
    for path in tmp_path.iterdir():
        path.unlink()
    assert growth < 20, f"{growth:.0f} MiB"


def test_what_does_not_fit_into_one_file_is_refused_at_once(tmp_path: Path) -> None:
    model = model_of(w=torch.zeros(1).expand(1 << 29))
    for target, fix in ((io.BytesIO(), "Give a path"), (tmp_path / "model.onnx", "Leave external_data unset")):
        with pytest.raises(SerializeError, match=f"2,147,48.* bytes, and one file can have at most 2,147,483,647.*{fix}"):
            save(model, target, WriteOptions(external_data=False))
    assert not os.listdir(tmp_path)


@pytest.mark.full
def test_beyond_two_gigabytes_the_weights_go_to_a_second_file(tmp_path: Path) -> None:
    model = model_of(w=torch.zeros(1).expand(1 << 28, 2), b=torch.arange(2000.0))
    for node in list(model.graph)[:1]:  # running it would copy the weight
        model.graph.outputs.pop(0)
        model.graph.remove(node)
    saved = save(model, tmp_path / "model.onnx")
    assert [path.name for path in saved.paths] == ["model.onnx", "model.onnx.data"]
    assert saved.paths[0].stat().st_size < 2000
    onnx.checker.check_model(tmp_path / "model.onnx")
    assert np.array_equal(values(tmp_path / "model.onnx")["b"], np.arange(2000.0))
    saved.paths[1].unlink()


@pytest.mark.full
def test_the_largest_single_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    saved = save(model_of(w=torch.zeros(1).expand((1 << 29) - (4 << 20) - 200)), path)
    assert len(saved.paths) == 1 and saved.bytes > (1 << 31) - (17 << 20)
    onnx.checker.check_model(path)
    values(path)
    path.unlink()


def layers(count: int) -> ir.Model:
    """Build a model of `count` tensors, whose elements are all `count`."""
    return model_of(**{f"a{index}": torch.full((500 + 100 * count, 11), float(count)).t() for index in range(count)})


def check_layers(folder: Path, counts: range) -> None:
    """Check that a folder has one of the models of `layers`, whole, and nothing else."""
    found = values(folder / "model.onnx")
    assert len(found) in counts and all((each == len(found)).all() for each in found.values())
    assert {*os.listdir(folder)} <= {"model.onnx", "model.onnx.data"}


@pytest.mark.parametrize("options", [WriteOptions(), EXTERNAL], ids=["one file", "two"])
def test_threads_that_save_to_one_path(options: WriteOptions, tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(5):
            save(layers(number), tmp_path / "model.onnx", options)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(1, 9)))
    check_layers(tmp_path, range(1, 9))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
@pytest.mark.parametrize("options", [WriteOptions(), EXTERNAL], ids=["one file", "two"])
def test_processes_that_save_to_one_path(options: WriteOptions, tmp_path: Path) -> None:
    models, children = [layers(1), layers(2)], []
    for model in models:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for _ in range(30):
                    save(model, tmp_path / "model.onnx", options)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    check_layers(tmp_path, range(1, 3))
