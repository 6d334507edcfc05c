"""The incidents that the lab can bring about, one file a rule."""
