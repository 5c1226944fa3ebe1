"""Run the files and their functions in another order, so that a test that depends on an earlier one shows.

``--order 7`` is one order, and ``--order random`` another one in each run. The rows of a function stay together: those of a case
share a capture.
"""

from __future__ import annotations

import os
import time
import zlib

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order", default="", help="the order of files and functions: a number, or 'random'")


def pytest_configure(config: pytest.Config) -> None:
    """Choose a random order, once: the other processes of the run get it by the environment."""
    if config.option.order == "random":
        config.option.order = os.environ.setdefault("TESTS_ORDER", str(time.time_ns() % 10**6))


def pytest_report_header(config: pytest.Config) -> str:
    order = config.option.order
    return f"order: {order} (--order {order} repeats it)" if order else ""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    order = config.option.order
    if order:
        items.sort(key=lambda item: [_hash(order, name) for name in (str(item.path), item.name.partition("[")[0])])


def _hash(order: str, name: str) -> int:
    return zlib.crc32(f"{order} {name}".encode())
