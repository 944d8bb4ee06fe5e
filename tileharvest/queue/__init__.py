"""The queue: where requests wait, and the values that travel through it."""
