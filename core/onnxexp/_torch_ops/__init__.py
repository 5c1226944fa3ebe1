"""Facts about torch operators: schemas and result types."""
