"""Capture: the interface of a frontend, torch.export's frontend, and what frontends share."""
