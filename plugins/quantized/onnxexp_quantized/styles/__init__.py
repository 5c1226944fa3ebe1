"""Quantized operators instead of QuantizeLinear and DequantizeLinear."""
