"""Sorting, quantiles, histograms and covariances."""
