"""Accuracy against size: kernlet beside what users would pick instead."""
