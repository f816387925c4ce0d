-- Workspaces of kind Archive: the last snapshot of each, and the pieces that snapshots are made of.

-- `live_epoch`: the last epoch whose agent let commands run; `final`: that agent slept, and changed nothing afterwards.
create table workspace_snapshots (
    sid text collate "C" primary key,
    epoch bigint not null default 0,
    number bigint not null default 0,
    parts text[] not null default '{}',
    taken_at double precision not null default 0,
    final boolean not null default false,
    live_epoch bigint not null default 0,
    left_out text not null default '',
    changed_at timestamptz not null default now()
);

-- `object` names the bytes where they are kept, and no second time: what is deleted late cannot take a new piece with it.
-- A piece with `collect_after` is not there for anybody: it is being written, or no snapshot names it any more.
-- `wanted` is the epoch and number of the snapshot that asked for it last.
create table workspace_pieces (
    sid text collate "C" not null,
    object text collate "C" not null,
    digest text collate "C" not null,
    bytes integer not null,
    wanted bigint not null,
    collect_after timestamptz,
    primary key (sid, object)
);
create unique index workspace_pieces_there on workspace_pieces (sid, digest) where collect_after is null;
create index workspace_pieces_to_collect on workspace_pieces (collect_after) where collect_after is not null;

-- Walls, as in the first file.
do $$
declare name text;
begin
    foreach name in array array['workspace_snapshots', 'workspace_pieces'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('grant select, insert, update, delete on %I to hermes_service', name);
        execute format('create policy session on %I using (sid = current_setting(''hermes.sid'', true)) '
                       'with check (sid = current_setting(''hermes.sid'', true))', name);
    end loop;
end
$$;
create policy clean on workspace_pieces
    using (current_setting('hermes.task', true) = 'janitor' and collect_after is not null);
