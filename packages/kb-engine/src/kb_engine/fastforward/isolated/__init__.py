"""Commands that nothing can meet: run at once on a clock of their own, and known from then on."""
