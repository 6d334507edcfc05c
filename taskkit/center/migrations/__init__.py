"""The migrations of the task center: run by `taskkit db upgrade`, oldest first."""
