"""Rules on who does which work, and where data lie."""
