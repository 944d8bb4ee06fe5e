"""The store: the bytes of images, named by what they are, so that each is kept once."""
