"""Numbers and figures for people."""
