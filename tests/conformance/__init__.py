"""Export PyTorch's operator database and compare with eager: ``python -m tests.conformance --help``."""
