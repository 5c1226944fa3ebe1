"""An ONNX model: its text, types, declared sizes, origins of nodes, and session."""
