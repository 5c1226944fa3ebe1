"""Convert nodes to the neutral graph: the interpreter, and its values."""
