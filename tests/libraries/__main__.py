"""Run the matrix of libraries, and write docs/reference/libraries.md.

``python -m tests.libraries --out results.jsonl`` runs what that file lacks; a part of a case's name selects:
``python -m tests.libraries --out results.jsonl timm``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.libraries.environment import ROOT, make
from tests.libraries.page import PAGE, page


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="run only cases with one of these in their names")
    parser.add_argument("--environment", type=Path, default=ROOT / ".venv" / "libraries")
    parser.add_argument("--out", type=Path, default=ROOT / "libraries.jsonl", help="the results, to which new ones are added")
    parser.add_argument("--exporters", nargs="*", help="only these")
    parser.add_argument("--again", action="store_true", help="run also what has a result")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args()
    python = make(options.environment, options.environment.with_name("torchvision"))
    known = {} if options.again else read(options.out)
    wanted = [
        (case, exporter)
        for case, exporter in _pairs(python)
        if (name_of(case), exporter) not in known
        and (not options.words or any(word in name_of(case) for word in options.words))
        and (not options.exporters or exporter in options.exporters)
    ]
    with ThreadPoolExecutor(options.jobs) as pool, options.out.open("a", encoding="utf-8") as file:
        for result in pool.map(lambda each: _run(python, *each), wanted):
            print(f"{result['status']:13} {result['exporter']:12} {result['case']}  {result['detail'][:100]}", flush=True)
            print(json.dumps(result), file=file, flush=True)
    if options.page:
        PAGE.write_text(page(list(read(options.out).values())), "utf-8")


def name_of(case: dict[str, Any]) -> str:
    """Return a case's name, which starts with the library's."""
    return f"{case['library']}: {case['name']}"


def read(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Read the results by case and exporter; the last one of each counts."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return {(result["case"], result["exporter"]): result for result in map(json.loads, lines)}


def _pairs(python: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Iterate over the cases, as the environment lists them, with their exporters."""
    command = [str(python), "-m", "tests.libraries.run_case", "--list"]
    found = subprocess.check_output(command, cwd=ROOT, text=True, env=_settings())
    for case in json.loads(found):
        for exporter in case["exporters"]:
            yield case, exporter


def _settings() -> dict[str, str]:
    # an installed package has its byte code, so a checkout may keep it too
    kept = {"PYTHONDONTWRITEBYTECODE": ""}
    return {**os.environ, **kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}


def _run(python: Path, case: dict[str, Any], exporter: str) -> dict[str, Any]:
    """Run a case in a process of its own; return its result."""
    command = [str(python), "-m", "tests.libraries.run_case", name_of(case), exporter]
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, env=_settings(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            out, err = child.communicate(timeout=case["limit"])
            ended = ""
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            ended = f"not finished after {case['limit']:g} s"
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    problem = ended or (err.strip().splitlines() or ["the process ended"])[-1]
    outcome = lines[0] if lines else {"status": "not exported", "detail": problem}
    steps = {line["step"]: line["result"] for line in lines[1:]}
    if lines and ended:
        steps["then"] = ended
    whole = round(time.perf_counter() - begin, 1)
    return {"case": name_of(case), "kind": case["kind"], "exporter": exporter, **outcome, "steps": steps, "whole_seconds": whole}


if __name__ == "__main__":
    main()
