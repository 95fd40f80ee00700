"""Critical paths of logs that are read window by window, in bounded memory."""
