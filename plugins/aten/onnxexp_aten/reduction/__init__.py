"""Reductions and running totals."""
