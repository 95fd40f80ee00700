"""What another chip would make of a finished run: its benchmark runs again, on a chip with other values."""
