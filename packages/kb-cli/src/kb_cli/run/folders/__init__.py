"""Run folders: their names, their atomic creation, and the list of them."""
