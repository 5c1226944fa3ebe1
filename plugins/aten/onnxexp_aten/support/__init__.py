"""What symbolics of several subjects share."""
