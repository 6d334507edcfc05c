"""The scheduler decides when: it dispatches what is due and plans what comes. Any number may run, none leads."""
