"""Pictures with coordinates: boxes and lines with their places, their colours, and their text as SVG."""
