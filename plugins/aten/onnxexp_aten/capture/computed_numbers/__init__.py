"""Calls of torch's functions with numbers that depend on a size."""
