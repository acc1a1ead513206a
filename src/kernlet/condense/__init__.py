"""Condensers: fewer training rows for methods that keep all of them, such as nearest neighbours."""
