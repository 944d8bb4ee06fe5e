"""The viewer: a web server over history and store. It reads both, and writes to neither."""
