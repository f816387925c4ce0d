-- Conversations that begin anew, titles, pictures, logins, and what was spent, by session and by Profile.
-- Only adds: a store of the version before goes on writing, its rows take the defaults.

do $$
declare name text;
begin
    foreach name in array array['sessions', 'turns', 'steps', 'usage'] loop
        execute format('alter table %I add column cache_write_tokens bigint not null default 0, '
                       'add column unpriced_calls bigint not null default 0, '
                       'add column cost_nano_usd bigint not null default 0', name);
    end loop;
end
$$;
alter table usage add column purpose text not null default 'turn';

-- `begins_after`: the agent's transcript starts behind this sequence. The context is what a provider last counted, up to
-- the message `context_sequence`; it stays here because steps are cleaned up and a conversation may sleep for months.
alter table conversations
    add column title text not null default '',
    add column begins_after bigint not null default 0,
    add column compactions integer not null default 0,
    add column context_tokens bigint not null default 0,
    add column context_sequence bigint not null default 0;

-- `copied`: repeated by a compaction for the model's sake; people read the original.
alter table messages add column copied boolean not null default false;

-- Whose money a call cost that ended after its session was purged.
alter table tombstones
    add column namespace text not null default '',
    add column profile text not null default '';

-- Where a conversation began anew, and from what. `old_prompt` is null when the prompt stayed as it was.
create table compactions (
    sid text collate "C" not null,
    cid text collate "C" not null,
    number integer not null,
    turn_id text collate "C" not null,
    step integer not null,
    old_prompt text,
    tokens_before bigint not null,
    tokens_after bigint not null,
    first_sequence bigint not null,
    summary_sequence bigint not null,
    last_sequence bigint not null,
    created_at timestamptz not null default now(),
    primary key (sid, cid, number),
    unique (sid, turn_id, step)
);

-- A picture is whole when `received` is `total`; its bytes are in pages, in the order they came.
create table media (
    sid text collate "C" not null,
    media_id text collate "C" not null,
    media_type text not null,
    total integer not null,
    received integer not null,
    created_at timestamptz not null default now(),
    primary key (sid, media_id)
);
create index media_by_age on media (created_at);
create table media_pages (
    sid text collate "C" not null,
    media_id text collate "C" not null,
    starts integer not null,
    data bytea not null,
    primary key (sid, media_id, starts)
);
-- Pictures are compressed already.
alter table media_pages alter column data set storage external;

-- `login` is a digest that nobody can guess without the Secret; `sealed` can be opened by whoever holds the Secret.
create table logins (
    login text collate "C" primary key,
    revision integer not null,
    sealed text not null,
    changed_at timestamptz not null default now()
);

-- Sums of the ledger, kept at each insert: a budget is asked before every call and must not read the whole month.
create table session_spend (
    sid text collate "C" primary key,
    nano_usd bigint not null
);
-- Not tied to a session's life: deleting a session does not give its money back. `shard` spreads a busy Profile's writers.
create table profile_spend (
    namespace text collate "C" not null,
    profile text collate "C" not null,
    day date not null,
    shard smallint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cached_input_tokens bigint not null,
    cache_write_tokens bigint not null,
    reasoning_tokens bigint not null,
    model_calls bigint not null,
    unpriced_calls bigint not null,
    cost_nano_usd bigint not null,
    primary key (namespace, profile, day, shard)
) with (fillfactor = 70);

-- Walls, as in the first file.
do $$
declare name text;
begin
    foreach name in array array['compactions', 'media', 'media_pages', 'session_spend', 'logins', 'profile_spend'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('grant select, insert, update, delete on %I to hermes_service', name);
    end loop;
    foreach name in array array['compactions', 'media', 'media_pages', 'session_spend'] loop
        execute format('create policy session on %I using (sid = current_setting(''hermes.sid'', true)) '
                       'with check (sid = current_setting(''hermes.sid'', true))', name);
    end loop;
end
$$;
create policy login on logins using (current_setting('hermes.task', true) = 'login:' || login)
    with check (current_setting('hermes.task', true) = 'login:' || login);
-- Each tenant's namespace by itself.
create policy spend on profile_spend using (current_setting('hermes.task', true) = 'spend:' || namespace)
    with check (current_setting('hermes.task', true) = 'spend:' || namespace);
create policy clean on media using (current_setting('hermes.task', true) = 'janitor');
create policy clean on media_pages using (current_setting('hermes.task', true) = 'janitor');
create policy clean on logins using (current_setting('hermes.task', true) = 'janitor');
create policy clean on profile_spend using (current_setting('hermes.task', true) = 'janitor');
create policy clean on sessions for select using (current_setting('hermes.task', true) = 'janitor');
