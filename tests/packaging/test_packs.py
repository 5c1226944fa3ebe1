"""Packs take effect by pip install, and none by pip uninstall; scripts stay as is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import Make
from tests.packaging.environments import PROJECTS, Environment, name_of, project
from tests.packaging.packs import Pack, relu_pack

FIRST_PARTY = {
    name: "off" if name == "onnxruntime-contrib" else "on"  # it is for a target
    for folder in PROJECTS[1:-1]
    for name in project(folder)["project"].get("entry-points", {}).get("onnxexp.plugins", {})
}
"""The plugins of this repository, switched on but for the target's."""

SHOW = """
    def show(program):
        return {
            "ops": [node.op_type for node in program.model.graph],
            "plugins": sorted(program.model.metadata_props["onnxexp.plugins"].split("; ")),
        }
"""

ATEN = """
    import json, numpy, onnxruntime, torch, onnxexp

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
            self.head = torch.nn.Linear(4, 5)

        def forward(self, x):
            return torch.nn.functional.gelu(self.head(self.conv(x).mean((2, 3))))

    torch.manual_seed(0)
    model = Model().eval()
    program = onnxexp.export(model, (torch.randn(2, 3, 8, 8),), "model.onnx", dynamic_shapes={"x": {0: "batch"}})
    other = torch.randn(5, 3, 8, 8)
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    (computed,) = session.run(None, {session.get_inputs()[0].name: other.numpy()})
    numpy.testing.assert_allclose(computed, model(other).detach().numpy(), rtol=1e-4, atol=1e-5)
    stamps = session.get_modelmeta().custom_metadata_map
    print(json.dumps({"shape": computed.shape, "plugins": stamps["onnxexp.plugins"]}))
"""

EXAMPLE = """
    import json, torch, onnxexp, acme_ops

    class Model(torch.nn.Module):
        def forward(self, x):
            return acme_ops.gated(acme_ops.snake(x, 0.5), torch.nn.functional.silu(x))

    x = (torch.linspace(-3, 3, 12).reshape(3, 4),)
    early = onnxexp.export(Model(), x, opset_version=19)
    usual = onnxexp.export(Model(), x)
    early.verify()
    usual.verify()
    others = [onnxexp.export(torch.nn.SiLU(), x, opset_version=24, without=without) for without in ([], ["acme-ops"])]
    print(json.dumps([show(program) for program in (early, usual, *others)]))
"""

RELU = """
    import json, torch, onnxexp

    program = onnxexp.export(torch.nn.ReLU(), (torch.tensor([-1.0, 2.0]),))
    program.verify()
    print(json.dumps(show(program)))
"""

HOOKED = """
    import onnxexp
    import onnx_ir
    import torch

    torch.library.define("hooked_pack::twice", "(Tensor x) -> Tensor")

    @torch.library.impl("hooked_pack::twice", "CompositeExplicitAutograd")
    def twice(x):
        return x + x

    @torch.library.register_fake("hooked_pack::twice")
    def _(x):
        return torch.empty_like(x)

    class Stamp(onnx_ir.passes.InPlacePass):
        name = "stamp"

        def call(self, model):
            model.metadata_props["hooked"] = "yes"
            return onnx_ir.passes.PassResult(model, True)

    class Pack:
        symbolics = onnxexp.SymbolicTable("hooked_pack")

        @onnxexp.hookimpl
        def post_pass(self, options):
            return Stamp()

    plugin = Pack()

    @Pack.symbolics("twice")
    def lowered(op, x):
        return op.Add(x, x)
"""


def script(text: str) -> str:
    return SHOW + text


def test_core_and_aten_export_a_model_that_is_right(make: Make) -> None:
    """The extra brings the plugin; the file computes torch's result at another batch."""
    environment = make("onnxexp[all]")
    assert environment.states() == FIRST_PARTY
    assert environment.python(ATEN).reported == {"shape": [5, 5], "plugins": "onnxexp-plugin-aten 0.1.0"}
    environment.uninstall(*map(name_of, PROJECTS[1:-1]))
    assert environment.plugins() == {}


def test_a_third_partys_pack_takes_no_line(make: Make) -> None:
    """Custom operators, and none of the others: the script has no plugins."""
    environment = make("onnxexp-plugin-aten", "acme-ops")
    assert environment.states() == {"acme-ops": "on", "aten": "on"}
    early, usual, beside, without = environment.python(script(EXAMPLE)).reported
    assert {"Sin", "Div", "Sigmoid", "Erf"} <= set(early["ops"]) and "Gelu" not in early["ops"]
    assert {"Sin", "Div", "Sigmoid", "Gelu"} <= set(usual["ops"]) and "Erf" not in usual["ops"]
    assert early["plugins"] == usual["plugins"] == ["acme-ops 0.1.0", "onnxexp-plugin-aten 0.1.0"]
    assert beside == without and beside["plugins"] == ["onnxexp-plugin-aten 0.1.0"]


@pytest.mark.full
def test_the_same_script_with_another_pack_another_version_and_none(make: Make, tmp_path: Path) -> None:
    """The export follows pip's install, upgrade and uninstall; the script stays."""
    environment = make("onnxexp-plugin-aten", relu_pack("loud-pack", 3, override=True).wheel(tmp_path))
    first = environment.python(script(RELU)).reported
    assert first["ops"] == ["Relu"] * 3 and "loud-pack 1.0" in first["plugins"]
    newer = Pack("loud-pack", relu_pack("loud-pack", 2, override=True).source, version="1.1")
    environment.install("--upgrade", newer.wheel(tmp_path))
    assert environment.plugins()["loud-pack"]["version"] == "1.1"
    second = environment.python(script(RELU)).reported
    assert second["ops"] == ["Relu"] * 2 and "loud-pack 1.1" in second["plugins"]
    environment.uninstall("loud-pack")
    assert environment.states() == {"aten": "on"}
    assert environment.python(script(RELU)).reported == {"ops": ["Relu"], "plugins": ["onnxexp-plugin-aten 0.1.0"]}


@pytest.mark.full
def test_a_pack_with_hooks_and_an_operator_of_its_own(make: Make, tmp_path: Path) -> None:
    environment = make("onnxexp", Pack("hooked-pack", HOOKED).wheel(tmp_path))
    reported = environment.python("""
        import json, torch, onnxexp, hooked_pack
        program = onnxexp.export(lambda x: torch.ops.hooked_pack.twice(x), (torch.ones(2),))
        program.verify()
        print(json.dumps([dict(program.model.metadata_props), [node.op_type for node in program.model.graph]]))
    """).reported
    properties, ops = reported
    assert properties["hooked"] == "yes" and properties["onnxexp.plugins"] == "hooked-pack 1.0" and ops == ["Add"]
    (listed,) = environment.plugins("--load").values()
    assert listed["hooks"] == ["post_pass"] and listed["operators"] == 1


@pytest.mark.full
def test_a_pack_brings_the_core_with_it(make: Make, empty: Environment) -> None:
    """pip install of a pack alone: its requirements bring the core."""
    empty.install("acme-ops")
    assert empty.states() == {"acme-ops": "on"}
    empty.uninstall("acme-ops", "onnxexp")
    assert not [path for path in empty.site.iterdir() if path.name.startswith(("onnxexp", "acme"))], "nothing is left behind"


@pytest.mark.full
def test_sdists_install_too(make: Make, empty: Environment) -> None:
    """pip builds what is published as source."""
    archives = [empty.house.one(folder, ".tar.gz") for folder in PROJECTS]
    empty.install("--no-build-isolation", *archives)
    assert empty.states() == {"acme-ops": "on", **FIRST_PARTY}
    assert "Sin" in empty.python(script(EXAMPLE)).reported[0]["ops"]


@pytest.mark.full
def test_a_running_session_sees_what_pip_installs(make: Make, tmp_path: Path) -> None:
    """As in a notebook: after a failed export, installing the pack is enough."""
    environment = make("onnxexp", relu_pack("first-pack", 1).wheel(tmp_path))
    wheel = relu_pack("second-pack", 2, override=True).wheel(tmp_path)
    command = [sys.executable, "-m", "pip", "--python", str(environment.folder), "install", "--no-index", str(wheel)]
    reported = environment.python(f"""
        import json, subprocess, torch, onnxexp

        def relus():
            return len(onnxexp.export(torch.nn.ReLU(), (torch.ones(2),)).model.graph)

        before = relus()
        subprocess.run({command!r}, check=True, capture_output=True)
        print(json.dumps([before, relus()]))
    """).reported
    assert reported == [1, 2]
