"""The command `onnxexp scaffold-op`: a new pack around one C++ operator."""
