-- Files that go with an answer, and the chats that people call their home. The bytes of a file are media.

create table files (
    sid text collate "C" not null,
    file_id text collate "C" not null,
    turn_id text collate "C" not null,
    media_id text collate "C" not null,
    number integer not null,
    name text not null,
    media_type text not null,
    size integer not null,
    caption text not null,
    created_at timestamptz not null default now(),
    primary key (sid, file_id)
);
create index files_of_turn on files (sid, turn_id, number);

-- One a platform; `set_at` says which was set last.
create table homes (
    owner text collate "C" not null,
    namespace text collate "C" not null,
    profile text collate "C" not null,
    channel text collate "C" not null,
    place jsonb not null,
    set_at timestamptz not null default now(),
    primary key (owner, namespace, profile, channel)
);

do $$
declare name text;
begin
    foreach name in array array['files', 'homes'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('grant select, insert, update, delete on %I to hermes_service', name);
    end loop;
end
$$;
create policy session on files using (sid = current_setting('hermes.sid', true))
    with check (sid = current_setting('hermes.sid', true));
create policy owner on homes using (owner = nullif(current_setting('hermes.owner', true), ''))
    with check (owner = nullif(current_setting('hermes.owner', true), ''));
