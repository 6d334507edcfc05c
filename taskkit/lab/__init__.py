"""The lab: real faults on purpose, on one's own installation, with what was found out afterwards."""
