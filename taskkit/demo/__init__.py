"""The demonstration: the main job from crontab to result, with real processes, in about half a minute."""

from taskkit.demo.run import Demo, Unexpected

__all__ = ["Demo", "Unexpected"]
