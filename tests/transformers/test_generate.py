"""`generate`: sampling, streams, ends of texts, and inputs that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onnxexp_transformers
from onnxexp import OnnxExporterError, OptionError
from onnxexp_transformers import TextGenerator
from onnxexp_transformers.generation import Sampler
from tests.transformers.causal_models import causal_model

IDS = np.array([[5, 6, 7], [8, 9, 10]])


@pytest.fixture(scope="module")
def generator() -> TextGenerator:
    return TextGenerator(onnxexp_transformers.export(causal_model("Llama"), "text-generation").program)


def test_a_stream_and_a_callback(generator: TextGenerator) -> None:
    seen: list[Any] = []
    text = generator.generate(IDS, max_new_tokens=5, on_tokens=seen.append)
    streamed = list(generator.stream(torch.from_numpy(IDS), max_new_tokens=5))
    assert text.shape == (2, 8) and np.array_equal(text[:, :3], IDS)
    assert np.array_equal(text[:, 3:], np.stack(seen, 1)) and np.array_equal(text[:, 3:], np.stack(streamed, 1))


def test_the_end_of_a_text(generator: TextGenerator) -> None:
    text = generator.generate(IDS, max_new_tokens=12)
    end = int(text[0, 4])
    stopped = generator.generate(IDS, max_new_tokens=12, eos_token_id=[end], pad_token_id=98)
    first = list(text[0, 3:]).index(end)
    assert np.array_equal(stopped[0, : 4 + first], text[0, : 4 + first]) and set(stopped[0, 4 + first :]) <= {98}
    assert len(list(generator.stream(IDS[:1], max_new_tokens=12, eos_token_id=end))) == first + 1


def test_samples_follow_their_seed(generator: TextGenerator) -> None:
    options: dict[str, Any] = {"max_new_tokens": 6, "temperature": 1.5, "top_k": 20, "top_p": 0.95}
    first, again, other = (generator.generate(IDS, seed=seed, **options) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert np.array_equal(
        generator.generate(IDS, max_new_tokens=6, temperature=1.0, top_k=1), generator.generate(IDS, max_new_tokens=6)
    )


def test_draws_have_the_probabilities_of_the_logits() -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.15, 0.05]], np.float32))
    for options, expected in (
        ({}, [0.5, 0.3, 0.15, 0.05]),
        ({"top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.6}, [0.625, 0.375, 0, 0]),
        ({"temperature": 0.5}, [0.25 / 0.365, 0.09 / 0.365, 0.0225 / 0.365, 0.0025 / 0.365]),
    ):
        given: dict[str, Any] = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 3, **options}
        drawn = Sampler(**given).draw(np.repeat(logits, 20_000, axis=0))
        np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 20_000, expected, atol=0.015)


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (IDS[0], {}, r"give token ids, int64\[batch, length\]"),
        (IDS.astype(float), {}, "give token ids"),
        ({"attention_mask": IDS}, {}, "the inputs have no input_ids"),
        ({"input_ids": IDS, "attention_mask": IDS[:1]}, {}, "attention_mask has the shape"),
        ({"input_ids": IDS, "attention_mask": np.array([[1, 1, 0], [1, 1, 1]])}, {}, "pad on the left"),
        (IDS, {"temperature": -1}, "temperature is -1"),
        (IDS, {"top_k": 5}, "no effect at temperature 0"),
        (IDS, {"temperature": 1.0, "top_p": 0}, "top_p is 0"),
    ],
)
def test_what_does_not_fit(generator: TextGenerator, inputs: Any, options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        generator.generate(inputs, **options)


def test_a_text_longer_than_a_static_cache() -> None:
    options = {"cache": "static", "max_length": 6}
    program = onnxexp_transformers.export(causal_model("Llama"), "text-generation", task_options=options).program
    assert onnxexp_transformers.generate(program, IDS, max_new_tokens=4).shape == (2, 7)
    with pytest.raises(OptionError, match="the static cache is for 6"):
        onnxexp_transformers.generate(program, IDS, max_new_tokens=5)


def test_a_model_that_onnx_runtime_does_not_take(tmp_path: Path) -> None:
    program = onnxexp_transformers.export(causal_model("GPT2").bfloat16(), "text-generation").program
    with pytest.raises(OnnxExporterError, match=r"does not take model\.onnx: .*; to fix this, export it in float32 or float16"):
        TextGenerator(program)
    (tmp_path / "model.onnx").write_text("no model")
    with pytest.raises(OnnxExporterError, match="export or download the file again"):
        TextGenerator(tmp_path)


def test_a_path_without_a_model(tmp_path: Any) -> None:
    with pytest.raises(OptionError, match="there is no file"):
        TextGenerator(tmp_path)
