-- People who were let into a chat account by a code, those who ask to be, and who did what about it.
-- `account` is channel and account, `slack:T1.A1`. Of a code only a salted hash is kept.

create table pairing_requests (
    account text collate "C" not null,
    person text collate "C" not null,
    salt bytea not null,
    hash bytea not null,
    approved boolean not null default false,
    requested_at timestamptz not null default now(),
    primary key (account, person)
);

create table pairing_locks (
    account text collate "C" primary key,
    failures integer not null,
    locked_until timestamptz
);

create table paired_people (
    account text collate "C" not null,
    person text collate "C" not null,
    approved_by text not null,
    approved_at timestamptz not null default now(),
    primary key (account, person)
);

create table people_audit (
    id bigint generated always as identity primary key,
    account text collate "C" not null,
    at timestamptz not null default now(),
    actor text not null,
    action text not null check (action in ('asked', 'approved', 'revoked', 'locked')),
    person text not null
);
create index people_audit_recent on people_audit (account, id desc);

do $$
declare name text;
begin
    foreach name in array array['pairing_requests', 'pairing_locks', 'paired_people', 'people_audit'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
    end loop;
    foreach name in array array['pairing_requests', 'pairing_locks', 'paired_people'] loop
        execute format('grant select, insert, update, delete on %I to hermes_service', name);
        execute format('create policy people on %I using (current_setting(''hermes.task'', true) = ''people:'' || account) '
                       'with check (current_setting(''hermes.task'', true) = ''people:'' || account)', name);
    end loop;
end
$$;
-- What was recorded is never changed, and deleted by age alone.
grant select, insert, delete on people_audit to hermes_service;
create policy people on people_audit for select using (current_setting('hermes.task', true) = 'people:' || account);
create policy people_write on people_audit for insert
    with check (current_setting('hermes.task', true) = 'people:' || account);
create policy clean_read on people_audit for select using (current_setting('hermes.task', true) = 'janitor');
create policy clean on people_audit for delete
    using (current_setting('hermes.task', true) = 'janitor' and at < now() - interval '400 days');
create policy clean on pairing_requests
    using (current_setting('hermes.task', true) = 'janitor' and requested_at < now() - interval '1 day');
