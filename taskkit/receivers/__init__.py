"""Doors to people: one file a kind of receiver; each turns a notice into calls, and replies into verdicts."""
