"""Environments with other versions of Python, torch and onnx: `make compat`."""
