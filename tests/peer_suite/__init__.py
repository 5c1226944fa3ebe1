"""PyTorch's own ONNX tests, run with onnxexp in the place of torch.onnx's exporter."""
