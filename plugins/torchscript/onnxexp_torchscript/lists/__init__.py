"""Lists of unknown length, and operators on lists."""
