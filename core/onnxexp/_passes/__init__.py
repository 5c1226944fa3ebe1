"""Passes over the captured graph and the finished model."""
