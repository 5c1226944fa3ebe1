"""Trace a model: one run under torch's tracer, and what the tracer does not record."""
