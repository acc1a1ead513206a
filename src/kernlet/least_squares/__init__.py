"""The least-squares machines: proximal classifiers and kernel Fisher discriminants."""
