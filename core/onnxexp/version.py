"""What this release is: its version, and the opsets that it exports."""

__all__ = ["MAX_OPSET", "MIN_OPSET", "__version__"]

__version__ = "0.1.0"
MIN_OPSET, MAX_OPSET = 9, 28
