"""The walk: which tiles a harvest asks for. Pure."""
