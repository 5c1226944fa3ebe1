"""Export random programs that no one wrote, and compare the models with eager."""
