"""Tools for subcommands of `onnxexp`: arguments, output, and files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxexp._lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxexp._cli.common_arguments import PluginSelection
    from onnxexp._cli.model_target import Target
    from onnxexp._cli.plugin_scaffold import write_new
    from onnxexp._cli.text_or_json import Output, Progress
    from onnxexp._model.printable_text import one_line
    from onnxexp._request.untrusted_files import parse_toml, read_json
    from onnxexp._serialize.atomic_file import OutputFile
    from onnxexp._serialize.atomic_folder import OutputFolder
    from onnxexp._serialize.hidden_folder import temporary_folder
    from onnxexp._serialize.model_reader import read_model
    from onnxexp._suggest import nearest

__all__ = [
    "Output",
    "OutputFile",
    "OutputFolder",
    "PluginSelection",
    "Progress",
    "Target",
    "nearest",
    "one_line",
    "parse_toml",
    "read_json",
    "read_model",
    "temporary_folder",
    "write_new",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_cli.common_arguments": "PluginSelection",
        "_cli.model_target": "Target",
        "_cli.plugin_scaffold": "write_new",
        "_cli.text_or_json": "Output Progress",
        "_model.printable_text": "one_line",
        "_request.untrusted_files": "parse_toml read_json",
        "_serialize.atomic_file": "OutputFile",
        "_serialize.atomic_folder": "OutputFolder",
        "_serialize.hidden_folder": "temporary_folder",
        "_serialize.model_reader": "read_model",
        "_suggest": "nearest",
    },
)
