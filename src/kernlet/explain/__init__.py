"""Which features a prediction is due to: Shapley values."""
