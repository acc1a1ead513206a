"""Kernel machines in integers alone, for processors without floating point."""
