"""The queue in an SQLite file: for one worker."""
