"""Every SQL statement of the task center, by name; one file for each step in the life of a task."""
