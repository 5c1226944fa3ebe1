"""Write an exported folder: graphs, configuration, tokenizer, model card.

The folder is written beside its destination, and moved there when it is complete. Only a folder that is empty or was written here
before is replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnxexp
from onnxexp import OptionError
from onnxexp.serialize.atomic_file import explained
from onnxexp_transformers.exported_parts import ExportedParts
from onnxexp_transformers.genai_config import genai_config
from onnxexp_transformers.model_card import model_card

__all__ = ["MANIFEST", "write_folder"]

MANIFEST = "onnxexp.json"
"""The file that describes an exported folder: its task, the task's options, and its graphs."""
_COPIED = (".json", ".txt", ".model", ".jinja", ".tiktoken")
"""The suffixes of the files of tokenizers and processors."""
_OWN = ("config.json", "generation_config.json", "genai_config.json", MANIFEST)


def write_folder(folder: Path, parts: ExportedParts, command: str | None) -> Path:
    """Write a folder; see `ExportedModel.save`."""
    folder, model = folder.absolute(), parts.loaded.model
    with _new_folder(folder) as place:
        for name, program in parts.programs.items():
            program.save(place / f"{name}.onnx")
        if parts.loaded.folder is not None:
            _copy_tokenizer(parts.loaded.folder, place)
        model.config.save_pretrained(place)
        if model.can_generate():
            model.generation_config.save_pretrained(place)
        if parts.task == "text-generation":
            _write_genai_config(place, parts.program, model)
        graphs = [f"{name}.onnx" for name in parts.programs]
        manifest = {"task": parts.task, "options": dict(parts.options), "graphs": graphs}
        (place / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
        (place / "README.md").write_text(model_card(folder.name, parts, command), "utf-8")
    return folder


def _write_genai_config(place: Path, program: onnxexp.ONNXProgram, model: Any) -> None:
    """Write the file by which onnxruntime-genai loads the folder, where it can."""
    described = genai_config(program.model.graph, model.config, model.generation_config)
    if described is not None:
        (place / "genai_config.json").write_text(json.dumps(described, indent=2) + "\n", "utf-8")


def _copy_tokenizer(source: Path, place: Path) -> None:
    for file in sorted(source.iterdir()):
        if file.suffix in _COPIED and file.name not in _OWN and not file.name.endswith(".index.json"):
            shutil.copyfile(file, place / file.name)


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Make a folder for `folder`, and move it there at the end.

    Raises OptionError for a folder with other contents, SerializeError where the system fails.
    """
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file: give a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise OptionError(f"{folder} has files of its own, and is no earlier export (it has no {MANIFEST}): give a new folder")
    if not folder.parent.is_dir():
        raise OptionError(f"the folder {folder.parent} does not exist: create it, or choose another place")
    with explained(str(folder), 0), tempfile.TemporaryDirectory(".tmp", ".onnxexp-", folder.parent) as temporary:
        place = Path(temporary, "new")
        place.mkdir()
        yield place
        if folder.exists():
            old = Path(temporary, "old")
            os.replace(folder, old)
            try:
                os.replace(place, folder)
            except OSError:
                os.replace(old, folder)
                raise
        else:
            os.replace(place, folder)
