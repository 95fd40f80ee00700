"""Benchmarks: files, parameters, inputs, and expected outputs."""
