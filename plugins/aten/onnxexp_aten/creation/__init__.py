"""New tensors, casts and copies."""
