"""Renderers: the programs that draw maps, and how their sites are read. There is a file for each renderer."""
