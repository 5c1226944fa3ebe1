"""Passes over the finished model."""
