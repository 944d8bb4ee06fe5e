"""How fast a harvest is, and whether it stays so as a map grows: `make bench`."""
