"""The rules of a dream: no I/O, no clock, no randomness, no async."""
