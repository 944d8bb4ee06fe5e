"""How far a harvest is."""
