"""Programs of a launch that wait for each other: messages with credits into slots of TCM, and signals to counters."""
