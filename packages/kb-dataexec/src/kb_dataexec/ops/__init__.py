"""What each kind of op does to the bytes of a MemoryStore."""
