"""Capture models with torch.export's frontend, and share parts with all frontends."""
