"""The tests that fail with onnxexp, with the reason of each."""

from __future__ import annotations

import dataclasses

_9, _13, _17, _SCRIPTED = "traced, opset 9", "traced, opset 13", "traced, opset 17", "scripted, opset 17"


@dataclasses.dataclass(frozen=True)
class Known:
    """Tests that fail for one reason, in all of these runs."""

    reason: str
    runs: tuple[str, ...]
    tests: tuple[str, ...]


_REFUSAL = "The test expects an error of torch's exporter, or a wrong result; the export is right."

KNOWN: list[Known] = [
    Known(
        "A Python bool is a constant of a traced file; torch.onnx's is an input, which the test feeds.",
        (_9, _13, _17),
        ("test_arithmetic_prim_bool",),
    ),
    Known(_REFUSAL, (_9,), ("test_unsupported_pad",)),
    Known(_REFUSAL, (_17,), ("test_all_optional_default_tensor",)),
    Known(
        _REFUSAL,
        (_SCRIPTED,),
        (
            "test_all_optional_default_tensor_script",
            "test_mixed_optional_default_tensor_script",
            "test_tuple_of_optional_default_tensor_script",
        ),
    ),
    Known(
        "The test expects a refusal; the complex result is a tensor of pairs of floats.",
        (_17, _SCRIPTED),
        ("test_stft_wrong_return_complex",),
    ),
    Known("ONNX has no CumSum before opset 11, and the counts are data: refused.", (_9,), ("test_repeat_interleave",)),
    Known("ONNX has no scatter that adds before opset 16: refused.", (_9, _13), ("test_index_add_dynamic_axes",)),
    Known("`set_` replaces the memory of a tensor: refused, with the way out.", (_9, _13, _17, _SCRIPTED), ("test_set_",)),
    Known(
        "The number of chunks is a dynamic axis, and a file has a fixed number of outputs: refused.",
        (_13, _17),
        ("test_dynamic_chunk",),
    ),
    Known(
        "The rank of the result depends on a dynamic axis: refused.", (_13, _17, _SCRIPTED), ("test_slice_dynamic_shape_script",)
    ),
    Known("This release of torch refuses the model in eager mode.", (_13, _17), ("test_quantized_conv_transpose3d",)),
    Known(
        "A list of numbers is an input for each number; torch.onnx's is a sequence, which the test feeds.",
        (_SCRIPTED,),
        ("test_pad_types_scalar_list",),
    ),
    Known(
        "None and a list of numbers of unknown length are no outputs of a file.",
        (_SCRIPTED,),
        ("test_tuple_with_none_outputs", "test_uninitialized_intList"),
    ),
]
