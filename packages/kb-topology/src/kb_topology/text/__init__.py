"""The text of a topology file: reading, places of errors, checks of types, and changes of single values."""
