"""The tiers of tests: `make test` runs a part, the quick tier, and `make test-full` runs all.

The quick tier leaves out

1. the tests marked ``full``, and the rows of a `Case` that another of its rows stands for,
2. most tests of the slow files in `SLOW`,
3. of the rows of each test function all but about as many as the square root of their number.

``--sample N`` takes other rows in 2 and 3.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from onnxexp.testing._case import CaseRow

SLOW = {
    "aten/linalg/test_factorization.py": 2,
    "aten/nn/test_transformer_layer.py": 2,
    "autograd/test_choices.py": 2,
    "checking/test_find_mismatch.py": 2,
    "checking/test_planted_faults.py": 3,
    "conformance/test_conformance.py": 8,
    "core/test_atomic_folder.py": 3,
    "core/test_builder_schemas.py": 6,
    "core/test_builder_schemas.py::test_what_is_built_is_valid_and_what_is_not_names_the_opset": 0,
    "core/test_cli_export.py::test_json_is_alone_on_standard_output": 0,
    "core/test_cli_export.py::test_the_working_directory_is_for_the_users_module_alone": 0,
    "core/test_cli_output.py::test_progress_on_a_terminal": 0,
    "core/test_cli_signals.py": 0,
    "core/test_damaged_distributions.py": 3,
    "core/test_damaged_distributions.py::test_damaged_distribution_stops_nothing": 0,
    "core/test_higher_order.py": 2,
    "core/test_model_unharmed.py::test_buffer_in_read_only_memory": 0,
    "core/test_reentrancy.py": 12,
    "core/test_scaffold.py::test_a_new_pack_is_found_and_lowers_without_a_line_in_the_script": 0,
    "core/test_scaffold.py::test_a_new_pack_passes_its_own_tests": 0,
    "core/test_scan.py": 2,
    "core/test_serialize_accidents.py::test_memory_stays_flat": 0,
    "custom_cpp/test_exports.py": 3,
    "custom_cpp/test_registration.py::test_a_fallback_in_a_fresh_process": 0,
    "custom_cpp/test_running_errors.py::test_an_operator_that_torch_does_not_have": 0,
    "custom_cpp/test_running_errors.py::test_two_processes_build_at_once": 0,
    "docs/test_code_blocks.py": 5,
    "docs/test_site.py": 0,
    "fresh/test_fresh.py::test_packed_sequence_by_a_trace_alone": 0,
    "models/test_checkpoints.py": 0,
    "models/test_models.py": 12,
    "models/test_recurrent.py": 3,
    "ort/test_cached_attention.py": 16,
    "ort/test_cached_attention.py::test_every_layer_has_it_and_returns_its_presents": 0,
    "ort/test_static_cache.py": 20,
    "ort/test_static_cache.py::test_every_layer_has_it_and_may_write_in_place": 0,
    "packaging/test_broken.py": 0,
    "packaging/test_core_alone.py": 0,
    "packaging/test_distributions.py": 0,
    "packaging/test_locks.py": 0,
    "packaging/test_many.py": 0,
    "packaging/test_packs.py": 0,
    "packaging/test_plugin_settings.py": 0,
    "packaging/test_readme.py": 0,
    "packaging/test_release.py": 8,
    "packaging/test_working_directory.py": 0,
    "quantized/test_torchao.py": 3,
    "report/test_pages.py": 6,
    "sweep/test_cell_server.py": 0,
    "sweep/test_results.py": 4,
    "torch_onnx/test_export.py::test_modules_as_functions": 0,
    "torch_onnx/test_lookups.py::test_the_modules_are_imported_as_those_of_torch": 0,
    "torchscript/test_call_probes.py": 3,
    "torchscript/test_decided_sizes.py::test_an_index_of_pieces_needs_no_length": 0,
    "torchscript/test_decided_sizes.py::test_an_index_of_pieces_of_a_computed_length": 0,
    "torchscript/test_frontends.py": 3,
    "torchscript/test_no_torchscript.py": 0,
    "torchscript/test_size_check.py": 3,
    "torchvision/test_operators.py": 10,
    "transformers/test_caches.py": 0,
    "transformers/test_encoder_decoders.py": 2,
    "transformers/test_encoder_decoders.py::test_generates_the_same_tokens": 0,
    "transformers/test_export.py": 3,
    "transformers/test_export_folder.py": 5,
    "transformers/test_export_folder.py::test_an_interrupt_leaves_the_old_or_the_new_folder": 0,
    "transformers/test_genai.py": 0,
    "transformers/test_generate.py": 3,
    "transformers/test_images_and_text.py": 3,
    "transformers/test_shared_buffers.py": 8,
    "transformers/test_tasks.py": 8,
    "transformers/test_text_generation.py": 12,
}
"""Slow files and functions. The quick tier runs every n-th test of each, and none where n is 0."""
TESTS = Path(__file__).parent


def choose_quick_tier(items: Sequence[pytest.Item], sample: int) -> None:
    """Mark the tests that the quick tier leaves out as ``full``.

    `sample` numbers a choice among the slow tests and the rows.
    """
    places = Counter[str]()
    functions: defaultdict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("full") is None and not _is_represented(item) and not _is_left_out(item, places, sample):
            functions[item.path, _function(item)].append(item)
        else:
            item.add_marker(pytest.mark.full)
    for rows in functions.values():
        chosen = sorted(rows, key=lambda item: zlib.crc32(f"{sample} {item.name}".encode()))
        for item in chosen[max(1, round(math.sqrt(len(rows)))) :]:
            item.add_marker(pytest.mark.full)


def row_of(item: pytest.Item) -> CaseRow | None:
    """Return the row of a `Case` that a test checks; None for other tests."""
    row = params_of(item).get("check")
    return row if isinstance(row, CaseRow) else None


def params_of(item: pytest.Item) -> dict[str, Any]:
    """Return the parameters of a test; a function without parameters has no callspec."""
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _is_represented(item: pytest.Item) -> bool:
    """Return whether another row of a case stands for this one.

    The row with dynamic axes exports the same operators as the static one at the same opset, and runs at the example's sizes as
    well. The highest opset stands for those for which the case has no expectations.
    """
    row = row_of(item)
    if row is None:
        return False
    below = row.opset != max(row.case.opsets) and row.opset not in row.case.emits
    return below or bool(row.case.dynamic and not row.dynamic)


def _is_left_out(item: pytest.Item, places: Counter[str], sample: int) -> bool:
    """Return whether the sample lacks a test of a slow file or function.

    `places` counts the tests of each.
    """
    file = item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""
    name = next((name for name in (f"{file}::{_function(item)}", file) if name in SLOW), "")
    if not name:
        return False
    places[name] += 1
    return SLOW[name] == 0 or (places[name] - sample) % SLOW[name] != 1 % SLOW[name]


def _function(item: pytest.Item) -> str:
    return item.name.partition("[")[0]
