"""Build the torch bridge once for each torch and ONNX Runtime, and load it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path

import platformdirs
import torch
from torch.utils import cpp_extension

from onnxexp_custom_cpp.runtime.errors import BridgeError

_SUFFIX = str(sysconfig.get_config_var("SHLIB_SUFFIX") or ".so")
_SOURCE = Path(__file__).with_name("torch_bridge.cpp")


class Bridge:
    """The loaded library.

    Attributes:
        path: The file, for `SessionOptions.register_custom_ops_library`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        for function in (self._library.onnxexp_bridge_declare, self._library.onnxexp_bridge_error):
            function.restype = ctypes.c_char_p

    def register(self, declaration: str, options: object) -> None:
        """Add the declared operators to the options of a session.

        Raises BridgeError where torch lacks an operator, or ONNX Runtime's C API is not the known one.
        """
        if problem := self._library.onnxexp_bridge_declare(declaration.encode()):
            raise BridgeError(problem.decode())
        options.register_custom_ops_library(str(self.path))  # type: ignore[attr-defined] # onnxruntime has no types
        if problem := self._library.onnxexp_bridge_error():
            raise BridgeError(f"{problem.decode()}: the bridge does not run in it; use ONNX Runtime 1.20 or later, below 2")


@functools.cache
def bridge() -> Bridge:
    """Return the bridge, built at the first use.

    Raises BridgeError where it cannot be built or loaded.
    """
    path = library_path()
    try:
        return Bridge(path)
    except OSError as error:
        raise BridgeError(f"{path} does not load ({error}): delete it, so that it is built again") from error


def library_path() -> Path:
    """Return the file of the bridge in the user's cache folder; build it if needed.

    A build writes to a folder of its own and moves the finished file: two processes may build at once, and one that is stopped
    leaves nothing behind. A file that another user of the machine could have written is never loaded: a warning names it, and
    the bridge is built in a private folder, which is removed at the end of the process.

    Raises BridgeError without a C++ compiler, or where it fails.
    """
    folder = platformdirs.user_cache_path("onnxexp")
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        if problem := foreign(folder):
            folder = _private_folder(problem)
        target = folder / f"torch_bridge-{_key()}{_SUFFIX}"
        if target.exists():
            problem = foreign(target)
            if not problem:
                return target
            folder = _private_folder(problem)
            target = folder / target.name
        with tempfile.TemporaryDirectory(prefix="build-", dir=folder) as work:
            built = Path(work) / target.name
            _compile(built)
            built.chmod(0o700)  # whatever the umask is
            built.replace(target)
    except OSError as error:
        raise BridgeError(
            f"the torch bridge cannot be written to {folder}: {error}; XDG_CACHE_HOME names another folder"
        ) from error
    return target


def _private_folder(problem: str) -> Path:
    """Make a folder for this process alone, and warn why the cache is not used."""
    warnings.warn(
        f"{problem}, so the torch bridge is not loaded from the cache but built again for this process; "
        "to fix this, remove that folder "
        "or its write permission for others, or set XDG_CACHE_HOME to a folder of your own",
        stacklevel=2,
    )
    folder = Path(tempfile.mkdtemp(prefix="onnxexp-bridge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _key() -> str:
    import onnxruntime

    source = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]
    return f"torch{torch.__version__}-onnxruntime{onnxruntime.__version__}-{source}"


def _compile(target: Path) -> None:
    compiler = os.environ.get("CXX") or next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), "")
    if not compiler or not shutil.which(compiler):
        raise BridgeError(
            f"the torch bridge is built by a C++ compiler, and there is none ({compiler or 'c++, g++'}): install one, or "
            "use bridge='python' with the package onnxruntime-extensions"
        )
    if sys.stderr is not None:  # None in a process without standard streams, such as a service
        sys.stderr.write(f"onnxexp: building the torch bridge for torch {torch.__version__} (once, about 20 s) ...\n")
        sys.stderr.flush()
    includes = [f"-I{path}" for path in cpp_extension.include_paths()]
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    command = [compiler, "-shared", "-fPIC", "-O1", "-std=c++20", abi, *includes, str(_SOURCE), "-o", str(target)]
    rpaths = [] if sys.platform == "darwin" else [f"-Wl,-rpath,{path}" for path in cpp_extension.library_paths()]
    command += [*libraries, "-lc10", "-ltorch_cpu", *rpaths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BridgeError(f"{compiler} could not build the torch bridge:\n{done.stderr[-4000:]}")


def foreign(path: Path) -> str:
    """Return why another user could have written a file or folder; "" if none could.

    The path and each folder above it count, after links are followed. Only the user and root may own them, and no other may write
    to them. A folder above may be writable if its sticky bit keeps others from replacing what is in it, as in ``/tmp``.
    Windows protects a user's folders by access lists, which are not checked.

    Raises OSError where the path does not exist.
    """
    if os.name == "nt":
        return ""
    resolved = path.resolve(strict=True)
    for each in (resolved, *resolved.parents):
        status = each.stat()
        if status.st_uid not in (0, os.geteuid()):
            return f"{each} belongs to another user"
        if status.st_mode & _others(status) and (each == resolved or not status.st_mode & stat.S_ISVTX):
            return f"others can write to {each}"
    return ""


def _others(status: os.stat_result) -> int:
    """Return the bits of others' write access.

    A group with the user's own number has no other member.
    """
    return stat.S_IWOTH if status.st_gid == status.st_uid else stat.S_IWOTH | stat.S_IWGRP
