"""A small shop whose work is done by taskkit."""
