"""Compact kernel machines, trained to a number of bytes."""
