"""Files of torch.export that would take all memory, or time, when they are read."""

from __future__ import annotations

import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from torch.export import Dim

from onnxexp import OptionError
from onnxexp._cli.pt2_archive import load_archive
from tests.core.test_cli_archives import change_json, rewritten, saved


def repacked(path: Path, compression: int, more: dict[str, bytes] | None = None) -> None:
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of two records of one name
        for name, data in [*records.items(), *(more or {}).items()]:
            archive.writestr(name, data)


def test_a_compressed_archive(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.pt2")
    repacked(path, zipfile.ZIP_DEFLATED, {"model/data/weights/zeros": bytes(1 << 24)})
    with pytest.raises(OptionError, match="is not loaded.* it is compressed, which torch's own files are not"):
        load_archive(path)


def test_two_records_of_one_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.pt2")
    with zipfile.ZipFile(path) as archive:
        name = next(each for each in archive.namelist() if each.endswith("models/model.json"))
    repacked(path, zipfile.ZIP_STORED, {name: b"{}"})
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr(name, b"{}")
    with pytest.raises(OptionError, match="two records of one name"):
        load_archive(path)


def test_records_that_overlap(tmp_path: Path) -> None:
    """A zip bomb without compression: all records have the same place."""
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/a", bytes(1 << 16))
        for index in range(100):
            other = zipfile.ZipInfo(f"model/{index}")
            first = archive.infolist()[0]
            other.CRC, other.file_size, other.compress_size, other.header_offset = first.CRC, 1 << 16, 1 << 16, 0
            archive.filelist.append(other)
    with pytest.raises(OptionError, match="its records overlap"):
        load_archive(path)


@pytest.mark.parametrize(
    "size",
    [
        "Integer(9) ** Integer(9) ** Integer(9)", "9 ** 9 ** 9", "1 << 10 ** 9", "Pow(Integer(9), Integer(1000000000))",
        "Pow(Pow(Symbol('s0'), Integer(50)), Integer(50))",
        "Pow(Symbol('s0'), Symbol('s1'))", "LShift(Integer(1), Integer(10000))",
        "Rational('1e999999999')", "Float('0.1', precision=1000000000)", "Float('0.1', 1000000000)",
        "Pow(9, Rational(1, 1) + Integer(999999999))", "Add(" + "Integer(1), " * 2000 + "Integer(1))",
    ],
)  # fmt: skip
def test_sizes_that_take_long_to_compute(tmp_path: Path, size: str) -> None:
    path = saved(tmp_path / "model.pt2", dynamic={"x": {0: Dim("batch")}})

    def change(model: Any) -> None:
        model["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = size

    rewritten(path, change_json("models/model.json", change))
    with pytest.raises(OptionError, match="may take too long|may be too large|too long for a size|not a valid size"):
        load_archive(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_an_archive_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.pt2")
    with pytest.raises(OptionError, match="no regular file"):
        load_archive(tmp_path / "model.pt2")
