"""Report how ONNX Runtime runs a quantized file.

`onnxexp quantization-report` is the command; `docs/how-to/quantization-report.md` describes it.
"""
