"""At least 120 programs of control flow, lists, writes, indexing at all opsets."""

from __future__ import annotations

import importlib

from .running import OPSETS, TABLES, Program

SUBJECTS = ("branches", "indexing", "lists", "loops", "mutation", "programs")


def checked(subject: str) -> list[Program]:
    """List the programs checked at 11, 13, 17, 20 and 23, each in several variations."""
    name = f"tests.torchscript.test_{subject}"
    importlib.import_module(name)
    return [program for program in TABLES[name] if set(OPSETS) <= set(program.opsets) and program.at]


def test_enough_programs_at_every_opset() -> None:
    counts = {subject: len(checked(subject)) for subject in SUBJECTS}
    assert sum(counts.values()) >= 120, counts


def test_many_of_them_at_opset_9() -> None:
    assert sum(9 in program.opsets for subject in SUBJECTS for program in checked(subject)) >= 60
