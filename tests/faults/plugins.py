"""Hostile, damaged and slow plugins beside exports that do not need them."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

import onnxexp
from onnxexp._cli import main
from tests.core.packs import BROKEN, DAMAGED, TABLE, install, write_damaged, write_metadata

from .fault import Fault, Row, fork

SECONDS = 120
HOOK = "import onnxexp\nclass Pack:\n    @onnxexp.hookimpl{}\n    def {}\nplugin = table = Pack()\n"
SOURCES = {
    "an unknown hook": HOOK.format("", "pre_passes(self): ..."),
    "an unknown parameter": HOOK.format("", "pre_pass(self, optoins): ..."),
    "a wrapper": HOOK.format("(wrapper=True)", "pre_pass(self): yield"),
    "a conflict": TABLE.replace("mine", "aten"),
    "a slow import": f"import time\ntime.sleep(2)\n{TABLE}",
    "an import that writes": f"import sys\nprint('out')\nprint('err', file=sys.stderr)\n{TABLE}",
    "an import that moves": f"import os\nos.chdir('/')\n{TABLE}",
    "strict warnings": f"import warnings\nwarnings.simplefilter('error')\n{TABLE}",
    "another dtype": f"import torch\ntorch.set_default_dtype(torch.float64)\n{TABLE}",
    "a mode of torch": f"import torch\ntorch.overrides.BaseTorchFunctionMode().__enter__()\n{TABLE}",
    "a thread": f"import threading, time\nthreading.Thread(target=time.sleep, args=(1,), daemon=True).start()\n{TABLE}",
}
POINTS = {
    "the name of ours": ("taker", "[onnxexp.plugins]\naten = taker:table\n"),
    "all names of ours": ("onnxexp-plugin-aten", "[onnxexp.plugins]\naten = taker:table\nautograd = taker:table\n"),
    "the commands of ours": ("taker", "[onnxexp.commands]\nsweep = taker:table\nplugins = taker:table\n"),
    "no module": ("taker", "[onnxexp.plugins]\ntaker = no_such_module:table\n"),
    "no object": ("taker", "[onnxexp.plugins]\ntaker = taker:nothing.of.it\n"),
    "a module of Python": ("taker", "[onnxexp.plugins]\ntaker = sys\n"),
    "10,000 entry points": ("taker", "[onnxexp.plugins]\n" + "".join(f"taker{each} = taker:table\n" for each in range(10_000))),
}


def _write(kind: str, folder: Path) -> None:
    """Install the plugin of a kind."""
    folder.mkdir()
    if kind in DAMAGED:
        write_damaged(folder, kind)
    elif kind in POINTS:
        (folder / "taker.py").write_text(TABLE)
        write_metadata(folder, *POINTS[kind], ["taker.py,sha256=x,1"])
    else:
        install(folder, "bad-pack", {"__init__": SOURCES[kind] if kind in SOURCES else BROKEN[kind][0]}, "bad_pack:table")


def _export() -> int:
    program = onnxexp.export(torch.neg, (torch.ones(2),))
    return int([node.op_type for node in program.model.graph] != ["Neg"])


COMMANDS: dict[str, Callable[[], int]] = {
    "an export that does not need it": _export,
    "`onnxexp plugins`": lambda: main(["plugins"]),
    "`onnxexp doctor`": lambda: main(["doctor"]),
    "`onnxexp plugins why`": lambda: main(["plugins", "why", "aten::neg"]),
}


def _outcome(command: str, folder: Path) -> str:
    """Run a command beside a pack in a forked child, and return its outcome.

    An outcome begins with "right", "clear error", "wrong", "traceback" or "hang".
    """
    child = fork()
    if child == 0:
        _run(COMMANDS[command], folder)
    began = time.monotonic()
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() - began > SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang"
        time.sleep(0.01)
    status, text = os.waitstatus_to_exitcode(ended[1]), (folder / "output").read_text("utf-8", "replace")
    if "Traceback" in text or "looks like a bug" in text or status not in (0, 1, 2):
        return f"traceback: {text[-300:]}"
    if status == 2:
        return "clear error"
    return "right" if status == 0 or COMMANDS[command] is not _export else "wrong"


def _run(command: Callable[[], int], folder: Path) -> None:
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.path.append(str(folder))
    try:
        status = command()
    except onnxexp.OnnxExporterError as error:
        print(error)
        status = 2
    except BaseException:  # noqa: BLE001 - the child ends here
        traceback.print_exc()
        status = 3
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _beside(command: str) -> Callable[[Row, Path], None]:
    def cause(row: Row, folder: Path) -> None:
        """Run a command beside each of the plugins; an export must succeed."""
        _export()  # what it imports need not be imported by each child
        counts: Counter[str] = Counter()
        for number, kind in enumerate((*DAMAGED, *BROKEN, *SOURCES, *POINTS)):
            _write(kind, folder / str(number))
            outcome = _outcome(command, folder / str(number))
            allowed = ("right",) if COMMANDS[command] is _export else ("right", "clear error")
            row.check(outcome in allowed, f"{kind}: {outcome}")
            counts[outcome.partition(":")[0]] += 1
        print(f"plugins: {command}: {dict(counts)}", file=sys.stderr)

    return cause


FAULTS = tuple(Fault(f"a hostile plugin, {command}", _beside(command)) for command in COMMANDS)
