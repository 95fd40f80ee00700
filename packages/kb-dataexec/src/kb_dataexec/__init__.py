"""Memory, op logs, their execution and verification. Import the modules: `kb_dataexec.store`, `.executor`, ..."""
