"""The programs that draw maps: how their sites are read. A file per renderer."""
