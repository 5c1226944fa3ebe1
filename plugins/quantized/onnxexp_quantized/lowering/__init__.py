"""Symbolics of quantized operators."""
