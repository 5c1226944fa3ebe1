"""Facts about torch operators: schemas, result types, mutation, type codes."""
