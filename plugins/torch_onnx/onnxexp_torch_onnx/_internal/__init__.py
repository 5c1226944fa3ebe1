"""Modules of ``torch.onnx._internal`` that symbolics import."""
