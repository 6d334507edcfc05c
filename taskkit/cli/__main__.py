"""``python -m taskkit.cli``: the same as ``taskkit``."""

from taskkit.cli import main

main()
