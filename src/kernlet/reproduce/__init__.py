"""The tables of the five papers, ours beside them."""
