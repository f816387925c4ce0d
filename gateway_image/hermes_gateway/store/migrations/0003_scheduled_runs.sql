-- Scheduled runs: answers that go to several places, and the turns of one job.
-- A store of the version before goes on writing: its rows take the default, and there is one target.

alter table deliveries add column target integer not null default 0;
alter table deliveries drop constraint deliveries_pkey;
alter table deliveries add primary key (sid, turn_id, target, part);

-- `account` is the UID of the job. The operator asks by it, across the sessions of its runs.
create index turns_of_job on turns (account, update_id) include (state) where channel = 'cron';
create policy job on turns for select using (
    channel = 'cron' and current_setting('hermes.task', true) = 'job:' || account
);
create policy job on deliveries for select using (
    current_setting('hermes.task', true) like 'job:%'
    and exists (select from turns t where t.sid = deliveries.sid and t.turn_id = deliveries.turn_id)
);
