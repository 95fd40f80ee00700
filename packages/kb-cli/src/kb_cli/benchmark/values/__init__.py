"""Values that users give: parameters, rows of shapes files, and tensors."""
