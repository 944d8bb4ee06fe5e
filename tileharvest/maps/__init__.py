"""`maps.toml` and its values."""
