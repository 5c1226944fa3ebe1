"""torchvision's detection models at two sizes, with no and with many detections.

The tests need torchvision, which ``make torchvision`` builds.
"""

from __future__ import annotations

import sys
import sysconfig
import warnings
from pathlib import Path

import pytest
import torch

import onnxexp

_BUILT = Path(sysconfig.get_paths()["purelib"]).parents[2] / "torchvision"
if not (_BUILT / "torchvision" / "_C.so").exists():
    pytest.skip("torchvision is not built: make torchvision", allow_module_level=True)
sys.path.insert(0, str(_BUILT))
from tests.torchvision.detection import MODELS, made, matched, picture, with_threshold  # noqa: E402 - needs the path

pytestmark = pytest.mark.full
SIZES = ((120, 160), (150, 130), (97, 201))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("threshold", "many"), [(0.02, True), (1.1, False)])
def test_a_detection_model(name: str, threshold: float, many: bool) -> None:
    model = with_threshold(made(name), threshold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a trace names the branches that it fixes
        program = onnxexp.export(model, ([picture(120, 160, 1)],), dynamic_shapes=([{1: "height", 2: "width"}],))
    for height, width in SIZES:
        image = picture(height, width, 2)
        with torch.no_grad():
            (expected,) = model([image])
        (actual,) = program([image])
        assert bool(len(expected["boxes"])) == many
        assert actual.keys() == expected.keys()
        assert {key: value.dtype for key, value in actual.items()} == {key: value.dtype for key, value in expected.items()}
        assert {key: value.shape for key, value in actual.items()} == {key: value.shape for key, value in expected.items()}
        # of hundreds of boxes, rounding decides about a few: which of two nearly equal scores comes last, or suppresses the other
        assert matched(expected, actual) >= 0.95
