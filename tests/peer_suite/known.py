"""The tests that fail with onnxexp, with the reason of each."""

from __future__ import annotations

import dataclasses

__all__ = ["KNOWN", "Known"]

_TRACED = ("traced, opset 9", "traced, opset 13", "traced, opset 17")
_SCRIPTED = ("scripted, opset 17",)


@dataclasses.dataclass(frozen=True)
class Known:
    """Tests that fail for one reason, in all of these runs."""

    reason: str
    runs: tuple[str, ...]
    tests: tuple[str, ...]


KNOWN: list[Known] = [
    Known(
        "A Python float is an input of float32; torch.onnx's is float64, which the test feeds.",
        (*_TRACED, *_SCRIPTED),
        ("test_arithmetic_prim_float", "test_fill", "test_primitive_input_floating"),
    ),
    Known(
        "A Python bool is a constant of the file; torch.onnx's is an input, which the test feeds.",
        (*_TRACED, *_SCRIPTED),
        ("test_arithmetic_prim_bool",),
    ),
    Known("A tensor that is the key of a dict is a constant; torch.onnx has it as an input.", _TRACED, ("test_dict",)),
    Known(
        "The test expects a refusal, or an error of torch's own checks, and the export is right.",
        _TRACED,
        ("test_interpolate_adaptive_pooling_error",),
    ),
    Known("The test expects a refusal, and the export is right.", (*_TRACED, *_SCRIPTED), ("test_lstm_proj_no_hidden",)),
    Known("The test expects a refusal, and the export is right.", ("traced, opset 9",), ("test_unsupported_pad",)),
    Known(
        "The test expects a refusal; the complex result is a tensor of pairs of floats.",
        ("traced, opset 17", *_SCRIPTED),
        ("test_stft_wrong_return_complex",),
    ),
    Known(
        "ONNX has no CumSum at opset 9, and no scatter that adds; the counts come from the data, so both are refused.",
        ("traced, opset 9",),
        ("test_index_add_dynamic_axes", "test_repeat_interleave"),
    ),
    Known("`set_` replaces the memory of a tensor, which is refused with a cure.", (*_TRACED, *_SCRIPTED), ("test_set_",)),
    Known(
        "The number of the chunks is a dynamic axis, and a file has a fixed number of outputs; torch.onnx writes the example's.",
        ("traced, opset 13", "traced, opset 17"),
        ("test_dynamic_chunk",),
    ),
    Known(
        "The model fails in eager mode of this release of torch.",
        ("traced, opset 13", "traced, opset 17"),
        ("test_quantized_conv_transpose3d",),
    ),
]
