"""`kb web`: a page on this machine that shows runs. Nothing is started, written or deleted through it."""
