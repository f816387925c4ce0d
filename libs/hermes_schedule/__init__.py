"""When a cron job runs: the grammar of schedules, and the times they name. Pure: clock and time zone are arguments."""

from hermes_schedule.errors import ScheduleError
from hermes_schedule.grammar import Schedule, parse
from hermes_schedule.occurrences import Missed, latest_and_missed, next_after

__all__ = ["Missed", "Schedule", "ScheduleError", "latest_and_missed", "next_after", "parse"]
