"""Compare an exported model with the original: outputs, every node, other sizes, other backends."""
