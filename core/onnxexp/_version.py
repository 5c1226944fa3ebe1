"""The version of this release, and its range of opsets."""

__version__ = "0.1.0"
MIN_OPSET = 9
"""The lowest target opset."""
MAX_OPSET = 28
"""The highest target opset."""
DEFAULT_OPSET = 20
"""The target opset where neither the call nor the configuration sets one."""
