"""The models of `tests/models` as a zoo."""

from __future__ import annotations

from pathlib import Path

from onnxexp_sweep.cell_list import cells_of
from onnxexp_sweep.zoo import read
from tests.models.test_models import CASES
from tests.sweep import model_zoo


def test_the_models_of_the_tests_are_a_zoo(tmp_path: Path) -> None:
    path = tmp_path / "zoo.toml"
    path.write_text(model_zoo.zoo(), "utf-8")
    found = read(path)
    assert {model.name for model in found.models} == CASES.keys()
    assert sum(bool(model.sizes) for model in found.models) > 30
    cells = cells_of(found, found.opsets, found.frontends)
    assert len({cell.name for cell in cells}) == len(cells) > 6 * len(CASES)
    target = model_zoo.__getattr__("resnet18")()
    assert target["args"][0].shape[0] == CASES["resnet18"].sizes["batch"]
