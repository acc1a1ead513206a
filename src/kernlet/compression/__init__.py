"""From an expansion to a smaller one."""
