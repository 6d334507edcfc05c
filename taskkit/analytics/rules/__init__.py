"""One file a rule: figures from frames, then a named verdict from a list of reasons, then what to do."""
