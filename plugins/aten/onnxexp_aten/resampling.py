"""Resampling on a regular grid: nearest, linear and cubic, in one, two and three dimensions."""
