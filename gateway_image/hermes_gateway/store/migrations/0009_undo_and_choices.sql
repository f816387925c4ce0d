-- What people do with whole conversations. Only adds: a store of the version before goes on writing.

-- `undone`: taken back by a person. People see it so marked; it is in no request to a model any more.
alter table messages add column undone boolean not null default false;
-- How often something was taken back: whoever holds a transcript in memory compares it.
alter table conversations add column undone integer not null default 0;

-- Apart from `conversations`, whose rows are there from the first turn on: a person may choose before that.
create table conversation_choices (
    sid text collate "C" not null,
    cid text collate "C" not null,
    title text not null default '',
    model text not null default '',
    changed_at timestamptz not null default now(),
    primary key (sid, cid)
);
alter table conversation_choices enable row level security;
alter table conversation_choices force row level security;
create policy session on conversation_choices using (sid = current_setting('hermes.sid', true))
    with check (sid = current_setting('hermes.sid', true));
grant select, insert, update, delete on conversation_choices to hermes_service;
