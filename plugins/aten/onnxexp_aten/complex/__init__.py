"""Complex numbers and Fourier transforms."""
