"""PyTorch's own ONNX tests, with onnxexp in the place of torch.onnx's exporter."""
