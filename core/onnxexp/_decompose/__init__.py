"""Decompose one captured node into simpler torch operators."""
