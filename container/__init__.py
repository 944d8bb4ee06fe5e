"""Files that only the container image needs beside TileHarvest: see the Dockerfile."""
