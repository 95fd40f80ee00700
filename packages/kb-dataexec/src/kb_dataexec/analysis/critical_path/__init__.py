"""Critical paths: which work each launch waited for, event by event, with all rows of the log in memory."""
