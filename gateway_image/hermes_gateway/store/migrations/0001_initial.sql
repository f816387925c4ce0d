-- Everything the platform must remember. Every row belongs to one session (`sid`), and row-level security confines a
-- transaction to the session, owner or task that it named with set_config(..., true): see the end of this file.
-- Text is collated "C": ids are compared byte by byte.

create table sessions (
    sid text collate "C" primary key,
    namespace text not null,
    profile text not null,
    owner text collate "C" not null,
    key jsonb not null,
    title text not null default '',
    epoch integer not null,
    state text not null default '',
    pod text not null default '',
    created_at timestamptz not null default now(),
    last_activity timestamptz not null default now(),
    last_sequence bigint not null default 0,
    turns bigint not null default 0,
    failed_deliveries bigint not null default 0,
    last_error text not null default '',
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cached_input_tokens bigint not null default 0,
    reasoning_tokens bigint not null default 0,
    model_calls bigint not null default 0
) with (fillfactor = 70);
create index sessions_by_owner on sessions (owner, namespace, last_activity desc, sid desc);

-- What is left of a purged session: its last epoch, so that no agent of its former life is taken for one of its next.
create table tombstones (
    sid text collate "C" primary key,
    epoch integer not null,
    purged_at timestamptz not null default now()
);

create table conversations (
    sid text collate "C" not null,
    cid text collate "C" not null,
    prompt text not null,
    created_at timestamptz not null default now(),
    primary key (sid, cid)
);

create table turns (
    sid text collate "C" not null,
    turn_id text collate "C" not null,
    cid text collate "C" not null,
    channel text collate "C" not null,
    account text collate "C" not null,
    update_id text collate "C" not null,
    state text not null check (state in ('received', 'running', 'done', 'failed', 'merged', 'dead')),
    attempt integer not null,
    epoch integer not null,
    handed_back boolean not null default false,
    ack_subject text not null,
    stream_sequence bigint not null,
    inbound text not null,
    reply text not null default '',
    reason text not null default '',
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cached_input_tokens bigint not null default 0,
    reasoning_tokens bigint not null default 0,
    model_calls bigint not null default 0,
    opened_at timestamptz not null default now(),
    settled_at timestamptz,
    primary key (sid, turn_id),
    unique (sid, channel, account, update_id)
) with (fillfactor = 80);
create index turns_unfinished on turns (sid) where state in ('received', 'running');

-- `reply` is what the write answered, so that the same write answers it again.
create table steps (
    sid text collate "C" not null,
    turn_id text collate "C" not null,
    step integer not null,
    last_sequence bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cached_input_tokens bigint not null,
    reasoning_tokens bigint not null,
    model_calls bigint not null,
    written_at timestamptz not null default now(),
    primary key (sid, turn_id, step)
);

-- `sequence` rises through the whole session, so it also rises inside each of its conversations.
-- `body` is JSON text and not jsonb: a transcript is replayed byte for byte, and jsonb refuses U+0000.
create table messages (
    sid text collate "C" not null,
    sequence bigint not null,
    cid text collate "C" not null,
    turn_id text collate "C" not null,
    step integer not null,
    body text not null,
    primary key (sid, sequence)
);
create index messages_by_conversation on messages (sid, cid, sequence);

create table journal (
    sid text collate "C" not null,
    turn_id text collate "C" not null,
    call_id text not null,
    tool text not null,
    state text not null check (state in ('started', 'finished')),
    step integer not null,
    ordinal integer not null,
    primary key (sid, turn_id, call_id)
);

-- Ids of one session commit in ascending order, because every writer holds the session's row lock.
-- `final` marks what is sent again when a settled turn's message comes again.
create table outbox (
    id bigint generated always as identity primary key,
    sid text collate "C" not null,
    turn_id text collate "C" not null,
    final boolean not null,
    subject text not null,
    payload text not null,
    created_at timestamptz not null default now(),
    relayed_at timestamptz
);
create index outbox_waiting on outbox (sid, id) where relayed_at is null;
create index outbox_final on outbox (sid, turn_id) where final;
create index outbox_relayed on outbox (relayed_at) where relayed_at is not null;

create table deliveries (
    sid text collate "C" not null,
    turn_id text collate "C" not null,
    part integer not null,
    parts integer not null,
    state text not null default 'pending' check (state in ('pending', 'attempting', 'delivered', 'failed')),
    attempts integer not null default 0,
    holder text not null default '',
    error text not null default '',
    platform_message_id text not null default '',
    changed_at timestamptz not null default now(),
    primary key (sid, turn_id, part)
);

create table commands (
    sid text collate "C" not null,
    command_id text collate "C" not null,
    account text collate "C" not null,
    update_id text collate "C" not null,
    kind text not null,
    arguments jsonb not null,
    result text,
    created_at timestamptz not null default now(),
    finished_at timestamptz,
    primary key (sid, command_id),
    unique (sid, account, update_id)
);
create index commands_open on commands (sid, created_at) where result is null;

create table usage (
    sid text collate "C" not null,
    turn_id text collate "C" not null,
    step integer not null,
    call_id text collate "C" not null,
    epoch integer not null,
    provider text not null,
    model text not null,
    outcome text not null,
    milliseconds double precision not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cached_input_tokens bigint not null,
    reasoning_tokens bigint not null,
    model_calls bigint not null,
    recorded_at timestamptz not null default now(),
    primary key (sid, turn_id, step, call_id)
);

-- Walls. `hermes.sid` opens one session; `hermes.owner` opens the list of one person's sessions; `hermes.task` opens what
-- one of the store's own cross-session tasks needs. An empty setting opens nothing: no row has an empty sid.
do $$
declare name text;
begin
    foreach name in array array['sessions', 'tombstones', 'conversations', 'turns', 'steps', 'messages', 'journal',
                                'outbox', 'deliveries', 'commands', 'usage'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('create policy session on %I using (sid = current_setting(''hermes.sid'', true)) '
                       'with check (sid = current_setting(''hermes.sid'', true))', name);
        execute format('grant select, insert, update, delete on %I to hermes_service', name);
    end loop;
    foreach name in array array['sessions', 'turns', 'commands'] loop
        execute format('create policy fleet on %I for select using (current_setting(''hermes.task'', true) = ''summaries'')',
                       name);
    end loop;
end
$$;
create policy owner on sessions for select using (owner = nullif(current_setting('hermes.owner', true), ''));
create policy running on turns for select using (
    nullif(current_setting('hermes.owner', true), '') is not null
    and exists (select from sessions where sessions.sid = turns.sid)
);
create policy sweep on outbox for select using (current_setting('hermes.task', true) = 'relay');
create policy clean on outbox using (current_setting('hermes.task', true) = 'janitor');
create policy clean on steps using (current_setting('hermes.task', true) = 'janitor');
create policy clean on journal using (current_setting('hermes.task', true) = 'janitor');
create policy clean on turns for select using (current_setting('hermes.task', true) = 'janitor');
create policy clean on commands using (current_setting('hermes.task', true) = 'janitor');
