"""The parts of `tools/check_image.py`, which builds and runs the image without a container engine."""
