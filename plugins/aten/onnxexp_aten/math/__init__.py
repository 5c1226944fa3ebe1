"""Operators on numbers, element by element."""
