-- Namespaces that the cluster has no more, and since when: what their sessions left is deleted after a time.

create table gone_namespaces (
    namespace text primary key,
    since timestamptz not null default now()
);

alter table gone_namespaces enable row level security;
alter table gone_namespaces force row level security;
grant select, insert, update, delete on gone_namespaces to hermes_service;
create policy fleet on gone_namespaces using (current_setting('hermes.task', true) = 'summaries');
