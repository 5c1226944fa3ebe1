"""Type inference: dtypes and symbolic sizes of the values of a graph."""
