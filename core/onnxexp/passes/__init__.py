"""Rewrites of the captured graph and of the finished model."""
