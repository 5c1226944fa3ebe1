"""Helpers shared by symbolics of several subjects."""
