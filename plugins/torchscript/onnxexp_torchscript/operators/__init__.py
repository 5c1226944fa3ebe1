"""TorchScript's own operators, control flow, and calls named as in torch.export."""
