"""Quantized models in TorchScript: run node by node in Python, on stand-ins."""
