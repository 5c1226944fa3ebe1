"""A test that fails for a limit of an older release is skipped, another is not."""

from __future__ import annotations

import pytest

from tests import older_releases

pytest_plugins = ["pytester"]
CONFTEST = "from tests.older_releases import pytest_runtest_makereport"
TESTS = """
def test_a_limit_of_onnx():
    raise ValueError("onnx 1.17.0 knows opsets up to 22, the target is opset 23")

def test_a_limit_of_onnx_runtime():
    raise RuntimeError("Opset 22 is under development and support for this is limited")

def test_no_kernel():
    raise RuntimeError("NOT_IMPLEMENTED : Could not find an implementation for Cos(7) node with name 'Cos'")

def test_fewer_inputs():
    raise RuntimeError("Error Node (layers.0/GroupQueryAttention) has input size 11 not in range [min=7, max=9].")

def test_a_fault():
    raise ValueError("opset 23")
"""


def test_faults_that_are_listed_are_skipped(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = {"onnx": (), "onnxruntime": (older_releases.Fault((1, 20), r"test_one\[[ab]\]", "it rounds up"),)}
    monkeypatch.setattr(older_releases, "FAULTS", faults)
    pytester.makeconftest(
        "from tests.older_releases import skip_faults\ndef pytest_collection_modifyitems(items): skip_faults(items)"
    )
    pytester.makepyfile("import pytest\n@pytest.mark.parametrize('x', 'abc')\ndef test_one(x): pass")
    for release, skipped in (((1, 20), 2), ((1, 21), 0)):
        monkeypatch.setattr(older_releases, "RUNTIME", release)
        result = pytester.runpytest_inprocess("-rs", "-p", "no:cacheprovider")
        result.assert_outcomes(passed=3 - skipped, skipped=skipped)
        assert ("onnxruntime 1.20: it rounds up" in result.stdout.str()) is bool(skipped)


@pytest.mark.parametrize(("limited", "skipped"), [(True, 4), (False, 0)])
def test_a_limit_is_the_reason_of_a_skip(
    limited: bool, skipped: int, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(older_releases, "LIMITED", limited)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-rs", "-p", "no:cacheprovider")
    result.assert_outcomes(skipped=skipped, failed=5 - skipped)
    if limited:
        reasons = [
            "onnx 1.17.0 knows opsets up to 22",
            "* does not take opset 22",
            "* no kernel of Cos(7) for *",
            "* of GroupQueryAttention",
        ]
        result.stdout.fnmatch_lines([f"SKIPPED*: {reason}" for reason in reasons])
