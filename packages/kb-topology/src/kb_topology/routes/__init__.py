"""Routes through the chip, found by searches from both ends."""
