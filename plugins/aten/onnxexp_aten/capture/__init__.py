"""Operators that captures of torch.export keep whole."""
