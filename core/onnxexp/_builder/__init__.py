"""Build ONNX nodes, as in `op.Add(x, 1)`, by the schemas of the target opset."""
