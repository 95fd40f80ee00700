"""The block that takes commands in a cube."""
