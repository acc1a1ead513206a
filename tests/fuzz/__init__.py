"""Tests that search for faults: seeded random cases of every reader, estimator and export.

``make fuzz ARGS="--minutes 30"`` runs a campaign; ``make test`` runs the first cases of each
target.
"""
