"""The request of one export: options, example call, names and dynamic shapes."""
