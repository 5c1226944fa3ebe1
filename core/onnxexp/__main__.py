"""Run the `onnxexp` command as `python -m onnxexp`."""

from __future__ import annotations

import contextlib
import os
import sys

_SAFE = sys.version_info >= (3, 11) and sys.flags.safe_path
with contextlib.suppress(FileNotFoundError):  # the working directory was removed, and is not on the path
    if not _SAFE and sys.path and sys.path[0] in ("", os.getcwd()):
        # `python -m` puts the working directory first. Neither plugins nor their imports may come from there.
        del sys.path[0]

from onnxexp._cli import main  # noqa: E402 - nothing is imported before the path is clean

sys.exit(main())
