"""A pack from ``onnxexp scaffold-op``: built, installed, found, tested."""

from __future__ import annotations

import pytest

from tests.packaging.conftest import Make

SCHEMA = "fused_gate(Tensor a, Tensor b, float s, int n) -> Tensor"


@pytest.mark.full
def test_a_pack_from_scaffold_op_builds_installs_and_runs(make: Make) -> None:
    fresh = make("onnxexp", "onnxexp-plugin-aten", "onnxexp-plugin-custom-cpp", "onnxexp-plugin-torchscript")
    fresh.command("scaffold-op", "fused_gate", "--schema", SCHEMA)
    built = fresh.folder / "built"
    pack = fresh.work / "fused_gate"
    fresh.python(f"import os; os.chdir({str(pack)!r}); from setuptools.build_meta import build_sdist; build_sdist('dist')")
    (sdist,) = (pack / "dist").iterdir()
    fresh.pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", built, sdist)
    (wheel,) = built.iterdir()
    fresh.install(wheel)
    assert fresh.states() == {"aten": "on", "custom-cpp": "on", "fused-gate-ops": "on", "torchscript": "on"}
    cache = str(fresh.folder / "cache")
    reported = fresh.python(
        """
        import json, numpy, torch, onnxexp, fused_gate_ops
        from onnxexp_custom_cpp import runtime

        class Model(torch.nn.Module):
            def forward(self, a, b):
                return torch.ops.fused_gate_ops.fused_gate(a, b, 0.5, 3)

        ones = torch.ones(2, 4), torch.ones(2, 4)
        onnxexp.export(Model(), ones, "model.onnx", dynamic_shapes=({0: "n"}, {0: "n"}))
        session = runtime.session("model.onnx", libraries=[fused_gate_ops.ort_library()], bridge="never")
        given = numpy.ones((5, 4), numpy.float32)
        print(json.dumps(session.run(None, {"a": given, "b": given})[0].tolist()))
        """,
        XDG_CACHE_HOME=cache,
    ).reported
    assert reported == [[5.5] * 4] * 5
    tests = fresh.work / "fused_gate" / "tests"
    fresh.python(
        f"import sys, pytest\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', {str(tests)!r}]))", XDG_CACHE_HOME=cache
    )
