"""The differences between versions of torch.

Each entry has the versions and the reason. Names that all supported versions have are imported where they are used.
"""

from __future__ import annotations

import re
from typing import Any

import torch

__all__ = [
    "NEWEST_TESTED", "NO_TORCHSCRIPT", "ScriptFunction", "ScriptMethod", "ScriptModule", "TracedModules",
    "forget_replacements", "untested_torch",
]  # fmt: skip

NEWEST_TESTED = (2, 15)
"""The newest release of torch that the tests run with."""

# 2.13 and 2.14 have TorchScript and call it deprecated; a release to come may leave it out.
try:
    from torch._C import ScriptMethod
    from torch.jit import ScriptFunction, ScriptModule
    from torch.jit._trace import TopLevelTracedModule, TracedModule

    NO_TORCHSCRIPT = ""
    """Why no model can be traced or scripted; "" where it can."""
    TracedModules: tuple[type[Any], ...] = (TracedModule, TopLevelTracedModule)
except ImportError:

    class ScriptModule(torch.nn.Module):  # type: ignore[no-redef]
        """The class of no object."""

    class ScriptFunction:  # type: ignore[no-redef]
        """The class of no object."""

    class ScriptMethod:  # type: ignore[no-redef]
        """The class of no object."""

    NO_TORCHSCRIPT = f"torch {torch.__version__} has no TorchScript (torch.jit), so no model can be traced or scripted"
    TracedModules = ()


def forget_replacements(env: Any) -> None:
    """Make a ShapeEnv compute its sizes again, after its replacements changed."""
    if hasattr(env, "_replacements_version_counter"):  # torch 2.13 caches sizes until it changes, 2.11 caches none
        env._replacements_version_counter += 1


def untested_torch() -> str:
    """Return a warning if torch is newer than the newest tested release, else ""."""
    release = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if release is None or tuple(map(int, release.groups())) <= NEWEST_TESTED:
        return ""
    newest = ".".join(map(str, NEWEST_TESTED))
    return (
        f"torch {torch.__version__} is newer than torch {newest}, the newest that onnxexp is tested with; if an export fails or "
        f"its numbers differ, try pip install 'torch=={newest}.*'"
    )
