"""The watchdog: rules, checks, the life of alerts; it reads tasks, and writes only its own tables."""
