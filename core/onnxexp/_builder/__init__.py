"""Build ONNX nodes: `op.Add(x, 1)`, driven by the schemas of the target opset."""
