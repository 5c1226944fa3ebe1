"""The command `onnxexp quantization-report`."""
