"""Run the `onnxexp` command as `python -m onnxexp`."""

from __future__ import annotations

import os
import sys

_SAFE = sys.version_info >= (3, 11) and sys.flags.safe_path
if not _SAFE and sys.path and (not sys.path[0] or sys.path[0] == os.getcwd()):
    # `python -m` puts the working directory first. Neither plugins nor their imports may come from there.
    del sys.path[0]

from onnxexp.cli import main  # noqa: E402 - nothing is imported before the path is clean

sys.exit(main())
