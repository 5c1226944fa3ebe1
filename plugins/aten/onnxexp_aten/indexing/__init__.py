"""Reading and writing by index."""
