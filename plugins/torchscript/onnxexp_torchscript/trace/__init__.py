"""Trace a model: one run under torch's tracer, and what it does not record."""
