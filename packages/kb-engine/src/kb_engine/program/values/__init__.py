"""What a kernel computes with: tensors, handles of values to come, and integers that are known while it runs."""
