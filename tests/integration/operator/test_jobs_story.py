"""Somebody without any right in Kubernetes keeps jobs, through the gateway's credential on the bus."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.jobs import (
    CREATE_JOB,
    DELETE_JOB,
    GET_JOB,
    LIST_JOBS,
    MAX_JOBS_OF_OWNER,
    RUN_JOB,
    UPDATE_JOB,
    CreateJob,
    JobName,
    JobOwner,
    ListJobs,
    RunJob,
    UpdateJob,
)
from hermes_operator.cluster.resources import CRON_JOBS, SESSIONS
from hermes_service.rpc import StoreClient
from tests.integration.operator.admin import until
from tests.integration.operator.harness import Installation

pytestmark = pytest.mark.timeout(300)


async def door(installation: Installation) -> StoreClient:
    bus = await installation.client(Role.GATEWAY)
    return StoreClient(bus, lambda method: subjects.jobs(Role.GATEWAY, method), patience_seconds=20)


def new(by: JobOwner, title: str = "Report", **fields: Any) -> CreateJob:
    blank = {"by": by, "profile": "default", "title": title, "schedule": "0 0 1 1 *", "prompt": "Write the report."}
    return CreateJob.model_validate({**blank, **fields})


async def refused(call: Any, code: ErrorCode, said: str) -> None:
    with pytest.raises(HermesError, match=said) as error:
        await call
    assert error.value.code is code


async def test_a_job_from_its_making_to_its_end(installation: Installation) -> None:
    await installation.up()
    jobs, admin, namespace = await door(installation), installation.admin, installation.namespace
    ada = JobOwner(namespace=namespace, owner="ada", profiles=("default",))
    bob = ada.model_copy(update={"owner": "bob"})

    made = await jobs.call(CREATE_JOB, new(ada))
    # Its next run may have been worked out meanwhile.
    repeated = await jobs.call(CREATE_JOB, new(ada))
    assert repeated.model_copy(update={"next_run": ""}) == made.model_copy(update={"next_run": ""})
    assert (await jobs.call(GET_JOB, JobName(by=ada, id=made.id))).id == made.id
    await refused(jobs.call(CREATE_JOB, new(ada, prompt="Another.")), ErrorCode.CONFLICT, "a job of this name")
    await refused(jobs.call(CREATE_JOB, new(ada, schedule="every 1m")), ErrorCode.INVALID, "minutes apart")
    await refused(jobs.call(CREATE_JOB, new(ada, profile="other")), ErrorCode.FORBIDDEN, "profile")
    elsewhere = ada.model_copy(update={"namespace": "kube-system"})
    await refused(jobs.call(CREATE_JOB, new(elsewhere)), ErrorCode.FORBIDDEN, "kube-system")

    assert [job.id for job in (await jobs.call(LIST_JOBS, ListJobs(by=ada))).jobs] == [made.id]
    assert (await jobs.call(LIST_JOBS, ListJobs(by=bob))).jobs == ()
    for call in (
        jobs.call(GET_JOB, JobName(by=bob, id=made.id)),
        jobs.call(UPDATE_JOB, UpdateJob(by=bob, id=made.id, suspend=True)),
        jobs.call(RUN_JOB, RunJob(by=bob, id=made.id, token="a" * 16)),
    ):
        await refused(call, ErrorCode.NOT_FOUND, "you have no job")
    assert not (await jobs.call(DELETE_JOB, JobName(by=bob, id=made.id))).existed

    paused = await jobs.call(UPDATE_JOB, UpdateJob(by=ada, id=made.id, suspend=True, prompt="Write less."))
    assert (paused.suspended, paused.prompt, paused.managed_by) == (True, "Write less.", "")
    for _ in range(2):
        await jobs.call(RUN_JOB, RunJob(by=ada, id=made.id, token="b" * 16))
    [run] = await until(lambda: admin.list(SESSIONS, namespace, labels="hermes.run/cron"), "the run's session is there")
    assert run["metadata"]["ownerReferences"][0]["name"] == made.id

    assert (await jobs.call(DELETE_JOB, JobName(by=ada, id=made.id))).existed
    assert await admin.get(CRON_JOBS, namespace, made.id) is None


async def test_a_job_kept_elsewhere_is_read_only_and_an_owner_has_so_many(installation: Installation) -> None:
    await installation.up()
    jobs = await door(installation)
    ada = JobOwner(namespace=installation.namespace, owner="ada", profiles=("default",))
    for number in range(MAX_JOBS_OF_OWNER):
        made = await jobs.call(CREATE_JOB, new(ada, f"Report {number}"))
    await refused(jobs.call(CREATE_JOB, new(ada, "One more")), ErrorCode.CONFLICT, "may have no more")

    body = await installation.admin.get(CRON_JOBS, installation.namespace, made.id)
    assert body is not None
    meta = {"name": made.id, "namespace": installation.namespace}
    head = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": meta}
    await installation.admin.apply(CRON_JOBS, {**head, "spec": body["spec"]}, manager="a-repository")
    shown = await jobs.call(GET_JOB, JobName(by=ada, id=made.id))
    assert shown.managed_by == "a-repository"
    for call in (
        jobs.call(UPDATE_JOB, UpdateJob(by=ada, id=made.id, suspend=True)),
        jobs.call(DELETE_JOB, JobName(by=ada, id=made.id)),
    ):
        await refused(call, ErrorCode.FORBIDDEN, "kept by a-repository")
