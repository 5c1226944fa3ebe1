"""Capture models with real quantized tensors: stand-ins that torch.export and the tracer take."""
