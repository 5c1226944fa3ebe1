"""Tables of symbolics, and their selection by operator and opset."""
