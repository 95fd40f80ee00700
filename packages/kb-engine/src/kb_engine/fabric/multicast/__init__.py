"""One read whose data goes to all that want its bytes, over the tree of their routes."""
