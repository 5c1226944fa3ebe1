"""The request: options, example call, names and dynamic shapes of one export."""
