"""The target onnxruntime-contrib: the plugin of that name takes part for it alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import onnxexp
from tests.ort.llama import operators

X = torch.randn(2, 3)


def test_it_is_off_unless_asked_for() -> None:
    assert "QuickGelu" not in str(operators(onnxexp.export(torch.nn.SiLU(), (X,))))
    assert "QuickGelu" not in str(operators(onnxexp.export(torch.nn.SiLU(), (X,), target="onnx")))


def test_the_call_or_the_configuration_turns_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert operators(onnxexp.export(torch.nn.SiLU(), (X,), target="onnxruntime-contrib")) == {"com.microsoft::QuickGelu": 1}
    tmp_path.joinpath("onnxexp.toml").write_text('target = "onnxruntime-contrib"\n')
    monkeypatch.chdir(tmp_path)
    assert operators(onnxexp.export(torch.nn.SiLU(), (X,))) == {"com.microsoft::QuickGelu": 1}
    monkeypatch.setenv("ONNXEXP_TARGET", "onnxruntime")
    assert operators(onnxexp.export(torch.nn.SiLU(), (X,))) == {"Sigmoid": 1, "Mul": 1}


def test_it_is_onnxruntime_for_other_plugins() -> None:
    targets = []

    class Read:
        @onnxexp.hookimpl
        def pre_pass(self, options: onnxexp.Options) -> None:
            targets.append(options.target)

    onnxexp.export(torch.relu, (X,), target="onnxruntime-contrib", plugins=[Read(), ...])
    assert targets == ["onnxruntime"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"without": ["onnxruntime-contrib"]}, "needs the plugin of that name: it is off: disabled by the call"),
        ({"plugins": ["aten"]}, "needs the plugin of that name: it is off: not among the plugins of the call"),
        ({"target": "onnxruntime-other"}, "target='onnxruntime-other', of the call, needs the plugin of that name: `pip install"),
    ],
)
def test_a_target_without_its_plugin_is_an_error(options: dict[str, object], message: str) -> None:
    with pytest.raises(onnxexp.PluginLoadError, match=message):
        onnxexp.export(torch.relu, (X,), **{"target": "onnxruntime-contrib", **options})
