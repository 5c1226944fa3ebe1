"""Libraries that export their models, and models that they ship, through onnxexp and torch.onnx.

``make libraries`` runs them in an environment of its own, and writes docs/reference/libraries.md.
"""
