"""Accuracy against size: kernlet and the models users would choose instead."""
