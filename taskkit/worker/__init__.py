"""Does the work: one parent, many children."""
