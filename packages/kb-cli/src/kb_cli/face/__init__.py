"""Runs that a Python program asks for, behind `import kernbench`."""
