"""The kinds as one table: what generation, RBAC and clients need to know of each."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.crd.base import ApiModel
from hermes_contracts.crd.cron_job import CRON_JOB_RULES, CronJobSpec, CronJobStatus
from hermes_contracts.crd.profile import PROFILE_RULES, ProfileSpec, ProfileStatus
from hermes_contracts.crd.session import SESSION_RULES, SessionSpec, SessionStatus


@dataclass(frozen=True)
class PrinterColumn:
    """A column of `kubectl get`; `priority` 1 shows with `-o wide` only."""

    name: str
    type: str
    json_path: str
    priority: int = 0


@dataclass(frozen=True)
class Kind:
    """One custom resource."""

    kind: str
    plural: str
    singular: str
    short_name: str
    spec: type[ApiModel]
    status: type[ApiModel]
    rules: tuple[tuple[str, str, str], ...]
    columns: tuple[PrinterColumn, ...]


PROFILE = Kind(
    kind="Profile",
    plural="profiles",
    singular="profile",
    short_name="hp",
    spec=ProfileSpec,
    status=ProfileStatus,
    rules=PROFILE_RULES,
    columns=(
        PrinterColumn("Provider", "string", ".spec.model.provider"),
        PrinterColumn("Model", "string", ".spec.model.name"),
        PrinterColumn("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
        PrinterColumn("Live", "integer", ".status.liveSessions"),
        PrinterColumn("Asleep", "integer", ".status.asleepSessions"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
        PrinterColumn("Reason", "string", ".status.conditions[?(@.type=='Ready')].reason", 1),
        PrinterColumn("Today", "string", ".status.spentTodayUsd", 1),
        PrinterColumn("Month", "string", ".status.spentMonthUsd", 1),
    ),
)

SESSION = Kind(
    kind="HermesSession",
    plural="hermessessions",
    singular="hermessession",
    short_name="hs",
    spec=SessionSpec,
    status=SessionStatus,
    rules=SESSION_RULES,
    columns=(
        PrinterColumn("Profile", "string", ".spec.profileRef.name"),
        PrinterColumn("Owner", "string", ".spec.owner"),
        PrinterColumn("State", "string", ".status.state"),
        PrinterColumn("Isolation", "string", ".status.isolation"),
        PrinterColumn("Active", "date", ".status.lastActivity"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
        PrinterColumn("Pending", "integer", ".status.pending", 1),
        PrinterColumn("Queue", "integer", ".status.queuePosition", 1),
        PrinterColumn("Turns", "integer", ".status.turns", 1),
        PrinterColumn("Cost", "string", ".status.costUsd", 1),
        PrinterColumn("Pod", "string", ".status.pod", 1),
        PrinterColumn("Id", "string", ".status.id", 1),
    ),
)

CRON_JOB = Kind(
    kind="HermesCronJob",
    plural="hermescronjobs",
    singular="hermescronjob",
    short_name="hcj",
    spec=CronJobSpec,
    status=CronJobStatus,
    rules=CRON_JOB_RULES,
    columns=(
        PrinterColumn("Profile", "string", ".spec.profileRef.name"),
        PrinterColumn("Schedule", "string", ".spec.schedules[0]"),
        PrinterColumn("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
        PrinterColumn("Suspend", "boolean", ".spec.suspend"),
        PrinterColumn("Active", "integer", ".status.active"),
        PrinterColumn("Next", "string", ".status.nextRun"),
        PrinterColumn("Last", "date", ".status.lastRun.time"),
        PrinterColumn("Outcome", "string", ".status.lastRun.outcome"),
        PrinterColumn("Age", "date", ".metadata.creationTimestamp"),
        PrinterColumn("Zone", "string", ".spec.timeZone", 1),
        PrinterColumn("Delivery", "string", ".status.lastRun.delivery", 1),
        PrinterColumn("Succeeded", "integer", ".status.succeeded", 1),
        PrinterColumn("Failed", "integer", ".status.failed", 1),
        PrinterColumn("Skipped", "integer", ".status.skipped", 1),
        PrinterColumn("Reason", "string", ".status.conditions[?(@.type=='Ready')].reason", 1),
    ),
)

KINDS = (SESSION, PROFILE, CRON_JOB)
