-- Questions that only a person may answer, and calls that an owner has allowed for good.
-- `inbound` is the message whose turn asked: what continues it is answered in the same place.

create table approvals (
    sid text collate "C" not null,
    approval_id text collate "C" not null,
    turn_id text collate "C" not null,
    call_id text not null,
    epoch integer not null,
    kind text not null check (kind in ('call', 'question')),
    tool text not null,
    arguments text not null,
    call_hash text collate "C" not null,
    question text not null,
    options jsonb not null,
    inbound text not null,
    asked_at timestamptz not null default now(),
    deadline timestamptz not null,
    state text not null default 'pending' check (state in ('pending', 'approved', 'denied', 'answered')),
    scope text not null default '',
    answer text not null default '',
    answered_by text not null default '',
    answered_at timestamptz,
    primary key (sid, approval_id)
);
create index approvals_granted on approvals (sid, call_hash) where state = 'approved' and scope = 'session';

create table approval_grants (
    owner text collate "C" not null,
    namespace text collate "C" not null,
    profile text collate "C" not null,
    call_hash text collate "C" not null,
    tool text not null,
    arguments text not null,
    created_at timestamptz not null default now(),
    primary key (owner, namespace, profile, call_hash)
);

do $$
declare name text;
begin
    foreach name in array array['approvals', 'approval_grants'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('grant select, insert, update, delete on %I to hermes_service', name);
    end loop;
end
$$;
create policy session on approvals using (sid = current_setting('hermes.sid', true))
    with check (sid = current_setting('hermes.sid', true));
create policy owner on approval_grants using (owner = nullif(current_setting('hermes.owner', true), ''))
    with check (owner = nullif(current_setting('hermes.owner', true), ''));
-- A session asks whether its own owner has allowed a call for its own Profile.
create policy session on approval_grants for select using (
    exists (
        select from sessions s where s.sid = current_setting('hermes.sid', true)
            and s.owner = approval_grants.owner and s.namespace = approval_grants.namespace
            and s.profile = approval_grants.profile
    )
);
