"""Script a model with torch.jit.script."""
