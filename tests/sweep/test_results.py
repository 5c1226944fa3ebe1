"""Store the rows of a sweep: each is complete or absent, even after a kill."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import onnxexp_sweep.results as module
from onnxexp import OptionError, SerializeError
from onnxexp_sweep.html_page import write
from onnxexp_sweep.results import PARTS, SCHEMA, Results, read, rows
from tests.faults.size_limit import size_limit
from tests.sweep.rows import OUTCOME, VERSIONS, cells
from tests.sweep.rows import rows as made


def test_a_row_has_the_result_and_all_versions(tmp_path: Path) -> None:
    (cell,) = cells(1)
    with Results(tmp_path / "new" / "results") as results:
        results.append(next(made([cell])))
    (row,) = rows(read(results.folder))
    assert row["key"] == cell.key(VERSIONS) and row["cell"] == "model0/9/export"
    assert {name: row[name] for name in ("status", "nodes", "export_seconds", "verified")} == {
        name: OUTCOME[name] for name in ("status", "nodes", "export_seconds", "verified")
    }
    assert row["torch"] == "2.13.0" and row["onnx_ir"] == "1.1.0" and dict(row["plugins"]) == {"onnxexp-plugin-aten": "0.1.0"}
    assert dict(row["stages"]) == OUTCOME["stages"] and row["started"].timestamp() == OUTCOME["started"]


def test_small_files_are_merged(tmp_path: Path) -> None:
    found = cells(PARTS + 3)
    with Results(tmp_path) as results:
        for number, row in enumerate(made(found)):
            results.append(row)
            assert results.done() == {cell.key(VERSIONS) for cell in found[: number + 1]}
            assert len(list((tmp_path / "parts").iterdir())) < PARTS
        assert (tmp_path / "cells.parquet").is_file()
    assert not list((tmp_path / "parts").iterdir())
    assert sorted(read(tmp_path)["key"].to_pylist()) == sorted(cell.key(VERSIONS) for cell in found)


def test_a_newer_row_of_a_key_counts(tmp_path: Path) -> None:
    (cell,) = cells(1)
    with Results(tmp_path) as results:
        for status, finished in (("failed", 1000), ("ok", 2000)):
            results.append({**next(made([cell], status=status)), "finished": finished})
            assert results.done(failed_too=False) == (set() if status == "failed" else {cell.key(VERSIONS)})
    assert read(tmp_path)["status"].to_pylist() == ["ok"]


def test_a_crash_while_a_file_is_written_leaves_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process dies in the middle of the write of its third row."""
    program = f"""
        import os
        from pathlib import Path
        import onnxexp_sweep.results as module
        from tests.sweep.rows import cells, rows

        def half(number):
            os.truncate(number, os.fstat(number).st_size // 2)
            os._exit(9)

        with module.Results(Path({str(tmp_path)!r})) as results:
            for number, row in enumerate(rows(cells(3))):
                if number == 2:
                    module.os.fsync = half
                results.append(row)
    """
    died = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=Path(__file__).parents[2], check=False)
    assert died.returncode == 9
    assert any(path.stat().st_size for path in (tmp_path / "parts").rglob("*") if path.parent.name.startswith(".onnxexp-"))
    assert read(tmp_path).num_rows == 2
    with Results(tmp_path) as results:  # the lock has ended with the process
        results.append(list(made(cells(3)))[2])
    assert read(tmp_path).num_rows == 3


def test_a_crash_between_a_merge_and_its_end_repeats_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results(tmp_path)
    with results:
        for row in made(cells(3)):
            results.append(row)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", lambda path: (_ for _ in ()).throw(OSError("crash")))
            with pytest.raises(OSError, match="crash"):
                results.compact()
        assert pq.read_table(tmp_path / "cells.parquet").num_rows == 3 and len(list((tmp_path / "parts").iterdir())) == 3
        assert read(tmp_path).num_rows == 3
    assert read(tmp_path).num_rows == 3


def test_one_process_writes(tmp_path: Path) -> None:
    with Results(tmp_path), pytest.raises(OptionError, match=rf"process {os.getpid()} on .* writes to .*another folder by -o"):
        Results(tmp_path).__enter__()
    with Results(tmp_path):
        pass


def test_a_folder_without_results(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="has no results of a sweep"):
        read(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot write results to"):
        Results(tmp_path / "file" / "results").__enter__()


def test_a_full_disk_keeps_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that does not fit raises one error with a fix; the merge adds no other."""
    found = list(made(cells(2)))

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    expected = (
        r"cannot write .*parts.*: no space left: it needs 1\d,\d{3} bytes, and .* The results before are kept. "
        "To fix this, make room"
    )
    _append(tmp_path, found[0])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(SerializeError, match=expected):
            _append(tmp_path, found[1])
    assert read(tmp_path)["key"].to_pylist() == [found[0]["key"]]
    _append(tmp_path, found[1])
    assert read(tmp_path).num_rows == 2


def test_a_disk_without_room_for_the_lock(tmp_path: Path) -> None:
    with (
        size_limit(0),
        pytest.raises(OptionError, match=r"cannot write results.*: File too large; give another folder by -o"),
    ):
        Results(tmp_path).__enter__()
    with Results(tmp_path):
        pass


def _append(folder: Path, row: Mapping[str, Any]) -> None:
    with Results(folder) as results:
        results.append(row)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    with Results(tmp_path) as results:
        results.append(next(made(cells(1))))
    (tmp_path / "cells.parquet").write_bytes(b"no Parquet")
    with pytest.raises(OptionError, match="cells.parquet is broken"):
        read(tmp_path)


def test_a_table_of_an_older_release(tmp_path: Path) -> None:
    """A column that the old table lacks is null."""
    (tmp_path / "parts").mkdir()
    table = module.pa.Table.from_pylist(list(made(cells(2))), SCHEMA)
    pq.write_table(table.drop_columns(["max_error"]), tmp_path / "cells.parquet")
    assert read(tmp_path)["max_error"].to_pylist() == [None, None]


def test_texts_that_are_no_unicode(tmp_path: Path) -> None:
    """An error may quote a file name that is no UTF-8; no row may end a sweep."""
    (cell,) = cells(1)
    odd = {"reason": "m\udcff.onnx", "warnings": ["\ud800"], "stages": {"\udcff": 1.0}}
    with Results(tmp_path) as results:
        results.append(next(made([cell], **odd)))
    (row,) = rows(read(tmp_path))
    assert row["reason"] == r"m\udcff.onnx" and row["warnings"] == [r"\ud800"] and row["stages"] == [(r"\udcff", 1.0)]
    write(tmp_path / "page.html", "\udcff", [{**row, "reason": odd["reason"]}])
    assert r"<title>\udcff</title>" in (tmp_path / "page.html").read_text("utf-8")


def test_a_killed_sweep_leaves_no_file_for_ever(tmp_path: Path) -> None:
    program = """
        import os, signal, sys
        from pathlib import Path
        from onnxexp_sweep.results import Results
        from tests.sweep.rows import cells, rows

        os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
        with Results(Path(sys.argv[1])) as results:
            results.append(next(rows(cells(1))))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    assert subprocess.run(command, cwd=Path(__file__).parents[2], check=False).returncode < 0
    assert [name.startswith(".onnxexp-") for name in os.listdir(tmp_path / "parts")] == [True]
    with Results(tmp_path) as results:
        results.append(next(made(cells(1))))
    assert sorted(os.listdir(tmp_path)) == ["cells.parquet", "lock", "parts"] and not os.listdir(tmp_path / "parts")
