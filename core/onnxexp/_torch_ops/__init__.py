"""Facts about torch operators, such as schemas and result types."""
