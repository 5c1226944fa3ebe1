"""Capture: torch.export's frontend, and the parts that all frontends share."""
