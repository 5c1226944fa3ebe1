"""Compare an exported model with the original: its outputs, or every node."""
