"""Environments with other versions of Python, torch, onnx and the rest: `make compat`."""
