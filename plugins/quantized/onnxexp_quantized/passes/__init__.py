"""Passes that arrange quantized models for ONNX Runtime's fusions."""
