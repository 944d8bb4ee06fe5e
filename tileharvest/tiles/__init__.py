"""Tiles: the grid, zones, and what an answer means for a tile. Pure."""
