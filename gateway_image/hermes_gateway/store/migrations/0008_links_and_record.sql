-- People who are one owner in several chat accounts, and a record of people that is read by namespace: what was decided, and
-- who used an agent, a row a person, account, agent and day.
-- Of a code only a salted hash is kept. `account` and `person` say who somebody is on one platform.

create table link_codes (
    namespace text collate "C" not null,
    account text collate "C" not null,
    person text collate "C" not null,
    owner text not null,
    salt bytea not null,
    hash bytea not null,
    taken_by text not null default '',
    asked_at timestamptz not null default now(),
    primary key (namespace, account, person)
);

create table link_failures (
    namespace text collate "C" not null,
    account text collate "C" not null,
    person text collate "C" not null,
    failures integer not null,
    last_at timestamptz not null default now(),
    primary key (namespace, account, person)
);

-- Somebody is reached as `to_`; whoever is reached is nobody else's, so a look-up is one step.
create table person_links (
    namespace text collate "C" not null,
    account text collate "C" not null,
    person text collate "C" not null,
    to_account text collate "C" not null,
    to_person text collate "C" not null,
    to_owner text not null,
    linked_at timestamptz not null default now(),
    primary key (namespace, account, person)
);
create index person_links_to on person_links (namespace, to_account, to_person);

do $$
declare name text;
begin
    foreach name in array array['link_codes', 'link_failures', 'person_links'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('grant select, insert, update, delete on %I to hermes_service', name);
        execute format('create policy links on %I using (current_setting(''hermes.task'', true) = ''links:'' || namespace) '
                       'with check (current_setting(''hermes.task'', true) = ''links:'' || namespace)', name);
    end loop;
end
$$;
create policy clean on link_codes
    using (current_setting('hermes.task', true) = 'janitor' and asked_at < now() - interval '1 day');
create policy clean on link_failures
    using (current_setting('hermes.task', true) = 'janitor' and last_at < now() - interval '1 day');

alter table people_audit
    add column namespace text collate "C" not null default '',
    add column profile text collate "C" not null default '',
    add column sid text collate "C" not null default '',
    add column detail text not null default '',
    drop constraint people_audit_action_check,
    add constraint people_audit_action_check check (action in (
        'asked', 'approved', 'revoked', 'locked', 'linked', 'unlinked', 'call_approved', 'call_denied', 'question_answered',
        'grant_revoked', 'sent'));
create index people_audit_age on people_audit (at);
create index people_audit_sent on people_audit (sid, at) where action = 'sent';
create index people_audit_tenant on people_audit (namespace, id desc);
create policy tenant on people_audit for select using (current_setting('hermes.task', true) = 'record:' || namespace);
create policy links_write on people_audit for insert
    with check (current_setting('hermes.task', true) = 'links:' || namespace);
create policy session_read on people_audit for select
    using (sid <> '' and sid = current_setting('hermes.sid', true));
create policy session_write on people_audit for insert
    with check (sid <> '' and sid = current_setting('hermes.sid', true));
create policy owner_write on people_audit for insert
    with check (actor <> '' and actor = current_setting('hermes.owner', true));
