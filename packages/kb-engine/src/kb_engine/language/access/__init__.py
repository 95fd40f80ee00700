"""Which bytes a load, a store or an atomic touches: slices, masks, gathered elements, and the pieces of a transfer."""
