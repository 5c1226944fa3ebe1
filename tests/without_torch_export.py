"""A pytest plugin for `make test-quick`: skip each test that calls torch.export.

Load it with ``-p tests.without_torch_export``.
"""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import torch


class CallsTorchExport(pytest.skip.Exception, GeneratorExit):
    """A skip that reaches pytest through the errors of plugins.

    An export replaces each exception of a frontend by one with the plugin's name, except KeyboardInterrupt and GeneratorExit.
    """


def pytest_configure(config: pytest.Config) -> None:
    """Replace `torch.export.export` for the whole run."""
    torch.export.export = _skip


def _skip(*args: Any, **kwargs: Any) -> NoReturn:
    raise CallsTorchExport("it calls torch.export", allow_module_level=True)
