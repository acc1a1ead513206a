"""Chunking with synthetic points."""
