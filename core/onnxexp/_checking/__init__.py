"""Compare an exported model with the original, by its outputs or by every node."""
