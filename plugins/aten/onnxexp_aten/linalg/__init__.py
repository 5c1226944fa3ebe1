"""Matrix products, factorizations and norms."""
