"""What is raised for text that is no schedule."""

from __future__ import annotations


class ScheduleError(ValueError):
    """The text is fit for whoever wrote the schedule."""
