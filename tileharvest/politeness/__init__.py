"""Politeness: what the owner of a map may expect of a harvest."""
