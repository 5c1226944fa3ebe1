"""One build of all distributions for all test processes, and environments."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from tests.packaging.environments import PROJECTS, Environment, Wheelhouse, link_requirements
from tests.packaging.release import build

Make = Callable[..., Environment]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests first, in one process.

    None of them may wait at the end while another process is idle: pytest-xdist hands out an eighth of all tests to each of two
    processes first, and single tests last.
    """
    items.sort(key=lambda item: not item.path.is_relative_to(Path(__file__).parent))


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    """Build wheels and sdists of every distribution, once for all test processes."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "packaging"
    shared.mkdir(exist_ok=True)
    house = Wheelhouse(shared / "distributions", shared / "requirements")
    with FileLock(shared / "lock"):
        if not (shared / "done").exists():
            work = tmp_path_factory.mktemp("sources")
            for project in PROJECTS:
                build(project, work, house.folder)
            link_requirements(house.requirements)
            (shared / "done").touch()
    return house


@pytest.fixture(scope="session")
def make(house: Wheelhouse, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Make fresh environments with the given requirements (names or wheels)."""

    def environment(*requirements: str | Path) -> Environment:
        fresh = Environment(tmp_path_factory.mktemp("fresh"), house)
        if requirements:
            fresh.install(*requirements)
        return fresh

    return environment


@pytest.fixture
def empty(house: Wheelhouse, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Provide an environment with what onnxexp requires, and nothing of onnxexp."""
    return Environment(tmp_path_factory.mktemp("fresh"), house)
