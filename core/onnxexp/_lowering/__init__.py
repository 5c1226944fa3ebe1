"""Lower a captured graph to an ONNX model."""
