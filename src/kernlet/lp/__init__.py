"""The 1-norm and minimal kernel machines, by linear programming."""
