"""TorchScript graphs: nodes, schemas, recorded types, the user's source lines."""
