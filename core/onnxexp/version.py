"""The version of the core."""

__all__ = ["__version__"]

__version__ = "0.1.0"
