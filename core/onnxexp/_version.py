"""The version of this release, and its range of opsets."""

__all__ = ["DEFAULT_OPSET", "MAX_OPSET", "MIN_OPSET", "__version__"]

__version__ = "0.1.0"
MIN_OPSET = 9
"""The lowest target opset."""
MAX_OPSET = 28
"""The highest target opset."""
DEFAULT_OPSET = 20
"""The target opset where neither the call nor the configuration sets one."""
