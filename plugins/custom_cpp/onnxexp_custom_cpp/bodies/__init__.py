"""Model-local functions for custom operators."""
