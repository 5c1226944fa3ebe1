"""Capture a model through torch.export."""
