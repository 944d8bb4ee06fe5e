"""The progress of a harvest, and the overview of a queue."""
