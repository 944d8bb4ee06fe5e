"""The queue in Redis: for any number of workers."""
