"""Discover, load and call plugins."""
