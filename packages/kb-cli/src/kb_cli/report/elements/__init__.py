"""Elements that several tables and pages share: HTML elements, verdicts, small tables."""
