"""Fewer training rows, as steps of a pipeline."""
