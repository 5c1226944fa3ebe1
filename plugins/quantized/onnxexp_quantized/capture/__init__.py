"""Capture models with quantized tensors: stand-ins that all frontends take."""
