"""Tiles made into pictures."""
