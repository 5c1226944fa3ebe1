"""Passes over the constant weights that DequantizeLinear takes."""
