"""Results as tables, sentences and pictures. Files named `..._tables` hold what a command prints."""
