"""The steps by which a history of an older revision becomes one of the present revision."""
