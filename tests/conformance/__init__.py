"""Export PyTorch's operator database and compare the models with eager."""
