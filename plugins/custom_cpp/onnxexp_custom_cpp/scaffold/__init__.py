"""The command `onnxexp scaffold-op`: a new plugin around one C++ operator."""
