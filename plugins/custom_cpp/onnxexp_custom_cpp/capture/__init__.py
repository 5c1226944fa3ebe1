"""The capture of custom operators."""
