"""Read files that anyone may have written, if they are regular and not too large.

An attempt to open a pipe may wait for ever, and a read of a device may never end.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from typing import Any, BinaryIO

from onnxexp._errors import OptionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGEST_TEXT = 1 << 28
"""Bytes of a text file: the largest tokenizers and indices of checkpoints have some 40 MB."""
_LARGEST_TOML = 1 << 20
_LONG_KEY = re.compile(r"""(?<![\w"'.-])(?:(?=([\w"'-]+))\1[ \t]*\.[ \t]*){200}""")
"""A key of 200 parts: tomllib's time and memory grow with the square of their number (8 GB for 100,000)."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, or the target of a link, for reading.

    Raises OptionError where there is no such file, or the system refuses it.
    """
    shown = _shown(path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # each is missing on some systems
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise OptionError(f"there is no file {shown}; to fix this, give the path of a file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if isinstance(error, OSError) and error.errno == errno.ENXIO:
            reason = "it is no regular file"  # a socket
        raise OptionError(f"{shown} cannot be read: {reason}; to fix this, give the path of a readable file") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OptionError(f"{shown} is no regular file, and may have no end; to fix this, give the path of a file")
    return open(descriptor, "rb")


def _shown(path: str | os.PathLike[str]) -> str:
    """Return a path for a message, escaped if a terminal may run a part of it."""
    text = os.fsdecode(path)
    return text if text.isprintable() else ascii(text)


def read_regular(path: str | os.PathLike[str], largest: int = LARGEST_TEXT) -> bytes:
    """Read a regular file of at most `largest` bytes.

    Raises OptionError for a larger, missing or unreadable file.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        contents = file.read(size + 1) if size <= largest else b""  # read() allocates what it is given
    if size > largest or len(contents) > largest:
        raise OptionError(f"{_shown(path)} has more than {largest:,} bytes; to fix this, give another file")
    return contents


def read_json(source: str | os.PathLike[str] | bytes, what: str = "") -> Any:
    """Read and parse JSON.

    Args:
        source: The path of a file, or the bytes of a text.
        what: Where the text comes from, for messages; the default is the path.

    Raises:
        OptionError: The file is unreadable, or the text is not valid JSON.
    """
    contents = source if isinstance(source, bytes) else read_regular(source)
    what = what or ("the text" if isinstance(source, bytes) else _shown(source))
    try:
        return json.loads(contents)
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a number of 5,000 digits; 100,000 brackets
        raise OptionError(f"{what} is not valid JSON: {error}; to fix this, correct it, or download it again") from error


def parse_toml(contents: bytes, what: str) -> dict[str, Any]:
    """Parse TOML that comes from `what`.

    Raises OptionError where it is not valid, or too long.
    """
    if len(contents) > _LARGEST_TOML:
        raise OptionError(f"{what} has more than {_LARGEST_TOML:,} bytes; to fix this, make it shorter")
    try:
        text = contents.decode("utf-8")
        if _LONG_KEY.search(text):
            raise OptionError(f"{what} has a key of more than 200 parts; to fix this, choose a shorter one")
        parsed: dict[str, Any] = tomllib.loads(text)
        return parsed
    except RecursionError:
        raise OptionError(f"{what} is not valid TOML: its values are nested too deeply; to fix this, correct it") from None
    except OptionError:
        raise
    except ValueError as error:  # no TOML, no UTF-8, or a number of 5,000 digits
        raise OptionError(f"{what} is not valid TOML: {error}; to fix this, correct it") from None
