"""Tables and lines that commands print, one file for each command."""
