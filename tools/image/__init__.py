"""Builds and runs the image without a container engine: see `tools/check_image.py`."""
