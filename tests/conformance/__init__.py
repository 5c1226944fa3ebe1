"""Every operator of PyTorch's own test database, exported and compared with eager: ``python -m tests.conformance --help``."""
