"""Views, concatenation, splitting and rearrangement."""
