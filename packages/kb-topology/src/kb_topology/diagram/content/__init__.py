"""What a picture shows: boxes and lines without coordinates, for each view."""
