"""Every notebook, run."""
