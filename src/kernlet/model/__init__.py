"""The portable model."""
