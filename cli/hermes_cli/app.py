"""Every command, its options and its help. Imports Typer alone: `hermes --help` pays for nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermes_cli.options import Options, hoist

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from hermes_cli.errors import ExitCode

_EXIT_CODES = "Exit codes: 0 done, 1 failed, 2 wrong options or configuration, 3 nobody answers, 4 refused, 130 interrupted."

app = typer.Typer(
    name="hermes",
    help="Talk to Hermes agents, and look after them.",
    epilog=f"These options may stand anywhere on the line. {_EXIT_CODES}",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _group(name: str, text: str) -> typer.Typer:
    group = typer.Typer(name=name, help=text, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group)
    return group


sessions = _group("sessions", "Your sessions: list, show, read, stop, delete.")
profile = _group("profile", "Profiles: who an agent is.")
pairing = _group("pairing", "People who are let into a chat account by a code (needs a key of the scope people).")
cron = _group("cron", "Schedules: yours with an address and a key, else the cluster's through kubectl.")

AccountWord = Annotated[str, typer.Argument(metavar="ACCOUNT", help="slack:acme; or acme, or slack, where that is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SessionWord = Annotated[str, typer.Argument(metavar="SESSION", help="Id, the beginning of one, or a client id.")]
Chosen = Annotated[
    str | None, typer.Option("--session", "-s", help="Session to go on with: an id, or an id of your own choice.")
]
Latest = Annotated[bool, typer.Option("--continue", "-c", help="Go on with the session that was active last.")]
Title = Annotated[str, typer.Option("--title", help="Title of a new session.")]


@app.callback()
def root(  # noqa: PLR0913 - each parameter is an option
    context: typer.Context,
    url: Annotated[str | None, typer.Option(envvar="HERMES_URL", help="Address of the gateway.")] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="HERMES_API_KEY", help="API key. Anybody on this machine sees it here: rather set the variable."
        ),
    ] = None,
    key_file: Annotated[Path | None, typer.Option(envvar="HERMES_API_KEY_FILE", help="File that holds the API key.")] = None,
    context_name: Annotated[
        str | None, typer.Option("--context", envvar="HERMES_CONTEXT", help="Context of the configuration file.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(envvar="HERMES_CONFIG", help="Configuration file; ~/.config/hermes/config.yaml without it."),
    ] = None,
    profile_name: Annotated[
        str | None, typer.Option("--profile", envvar="HERMES_PROFILE", help="Profile of new sessions.")
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Namespace of the release; hermes without it.")] = None,
    release: Annotated[str | None, typer.Option(help="Release on the cluster; hermes without it.")] = None,
    kube_context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Talk to Hermes agents, and look after them.

    Where the gateway is: --url with a key; or a context of the configuration file; or else the release
    on the cluster that kubectl reaches, through a port-forward of its own and with the first API key.
    """
    if version:
        from hermes_cli.commands.running import own_version

        typer.echo(f"hermes {own_version()}")
        raise typer.Exit
    context.obj = Options(url, key, key_file, context_name, config, profile_name, namespace, release, kube_context)


def _done(work: Coroutine[Any, Any, ExitCode | None]) -> None:
    from hermes_cli.commands.running import run

    raise typer.Exit(run(work))


@app.command(epilog="Example: hermes chat; hermes chat -c; hermes chat --session tour 'What is in my workspace?'")
def chat(
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="The first message.")] = None,
    session: Chosen = None,
    latest: Latest = False,
    title: Title = "",
) -> None:
    """Converse with an agent. /help in the conversation shows its commands. Without a terminal, lines come from stdin."""
    from hermes_cli.commands import talking

    _done(talking.chat(context.obj, talking.Which(session, latest, title), text))


@app.command(epilog="Example: hermes send 'Is the build green?'; git diff | hermes send -s review --json")
def send(  # noqa: PLR0913 - each parameter is an option
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="The message; - or nothing reads stdin.")] = "",
    session: Chosen = None,
    latest: Latest = False,
    title: Title = "",
    image: Annotated[list[Path] | None, typer.Option(help="A picture to send; may be repeated.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the answer.")] = True,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the answer.", min=1)] = 3600,
    as_json: Json = False,
) -> None:
    """Send one message and print its answer. The answer alone goes to stdout."""
    from hermes_cli.commands import talking

    sending = talking.Sending(text, image or [], wait, as_json, timeout)
    _done(talking.send(context.obj, talking.Which(session, latest, title), sending))


@sessions.command("list", epilog="Example: hermes sessions list --json | jq -r '.[].id'")
def sessions_list(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=2000)] = 50,
    as_json: Json = False,
) -> None:
    """List your sessions, newest activity first."""
    from hermes_cli.commands import sessions as commands

    _done(commands.list_them(context.obj, most=limit, as_json=as_json))


@sessions.command("show")
def sessions_show(context: typer.Context, session: SessionWord, as_json: Json = False) -> None:
    """Show one session."""
    from hermes_cli.commands import sessions as commands

    _done(commands.show(context.obj, session, as_json=as_json))


@sessions.command("transcript")
def sessions_transcript(
    context: typer.Context,
    session: SessionWord,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a message, one a line.")] = False,
) -> None:
    """Print what was said and done in a session."""
    from hermes_cli.commands import sessions as commands

    _done(commands.print_transcript(context.obj, session, as_json=as_json))


@sessions.command("stop")
def sessions_stop(context: typer.Context, session: SessionWord) -> None:
    """Stop the running turn of a session."""
    from hermes_cli.commands import sessions as commands

    _done(commands.stop(context.obj, session))


@sessions.command("files", epilog="Example: hermes sessions files trip report.csv --output -")
def sessions_files(
    context: typer.Context,
    session: SessionWord,
    file: Annotated[str | None, typer.Argument(help="Save this one, by name or id; without it, list them.")] = None,
    to: Annotated[Path | None, typer.Option("--output", "-o", help="Where to; - is standard output.")] = None,
    as_json: Json = False,
) -> None:
    """List the files that the agent has sent, or save one."""
    from hermes_cli.commands import session_files as commands

    if file is None:
        _done(commands.list_them(context.obj, session, as_json=as_json))
    else:
        _done(commands.save(context.obj, session, file, to))


@sessions.command("delete")
def sessions_delete(
    context: typer.Context,
    session: SessionWord,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a session with its transcript and files."""
    from hermes_cli.commands import sessions as commands

    _done(commands.delete(context.obj, session, sure=yes))


@profile.command("list")
def profile_list(context: typer.Context, as_json: Json = False) -> None:
    """List the Profiles that the key may use."""
    from hermes_cli.commands import cluster

    _done(cluster.list_profiles_of(context.obj, as_json=as_json))


@profile.command("show")
def profile_show(context: typer.Context, name: str, as_json: Json = False) -> None:
    """Show a Profile and its conditions (needs kubectl)."""
    from hermes_cli.commands import cluster

    _done(cluster.show_profile(context.obj, name, as_json=as_json))


@cron.command("list")
def cron_list(context: typer.Context, as_json: Json = False) -> None:
    """List schedules."""
    from hermes_cli.commands import cron as commands

    _done(commands.list_them(context.obj, as_json=as_json))


@cron.command("add", epilog="Example: hermes cron add 'weekdays at 9am' 'Tell me the news.' --deliver home")
def cron_add(  # noqa: PLR0913 - each parameter is an option
    context: typer.Context,
    schedule: Annotated[str, typer.Argument(help="'weekdays at 9am', 'every 2h', '0 9 * * 1-5', 'in 30m'.")],
    prompt: Annotated[str, typer.Argument(help="What the agent is to do.")],
    name: Annotated[str, typer.Option(help="What it is called; the prompt's beginning without it.")] = "",
    time_zone: Annotated[str, typer.Option(help="IANA name of the schedule's time zone.")] = "UTC",
    deliver: Annotated[
        str, typer.Option(help="local, home, slack, telegram or webhook:ROUTE; several with commas.")
    ] = "local",
    skill: Annotated[list[str] | None, typer.Option(help="A skill that runs read first; may be repeated.")] = None,
    repeat: Annotated[int | None, typer.Option(help="Runs until it is finished.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Make a schedule of your own (needs the gateway's address and a key of the scope jobs)."""
    from hermes_cli.commands import cron as commands

    new = commands.NewJob(schedule, prompt, name, time_zone, deliver, tuple(skill or ()), repeat)
    _done(commands.add(context.obj, new, as_json=as_json))


@cron.command("show")
def cron_show(context: typer.Context, name: str, as_json: Json = False) -> None:
    """Show a schedule."""
    from hermes_cli.commands import cron as commands

    _done(commands.show(context.obj, name, as_json=as_json))


@cron.command("run")
def cron_run(context: typer.Context, name: str) -> None:
    """Run a schedule now, once."""
    from hermes_cli.commands import cron as commands

    _done(commands.run(context.obj, name))


@cron.command("pause")
def cron_pause(context: typer.Context, name: str) -> None:
    """Pause a schedule."""
    from hermes_cli.commands import cron as commands

    _done(commands.suspend(context.obj, name, suspended=True))


@cron.command("resume")
def cron_resume(context: typer.Context, name: str) -> None:
    """Let a paused schedule go on."""
    from hermes_cli.commands import cron as commands

    _done(commands.suspend(context.obj, name, suspended=False))


@cron.command("remove")
def cron_remove(context: typer.Context, name: str) -> None:
    """Delete a schedule, and the sessions of its runs; their transcripts stay."""
    from hermes_cli.commands import cron as commands

    _done(commands.remove(context.obj, name))


@pairing.command("list")
def pairing_list(
    context: typer.Context,
    account: Annotated[str | None, typer.Argument(help="slack:acme; all accounts without it.")] = None,
    as_json: Json = False,
) -> None:
    """List who was let in by a code, and who waits for it."""
    from hermes_cli.commands import people

    _done(people.list_them(context.obj, account, as_json=as_json))


@pairing.command("approve", epilog="Example: hermes pairing approve slack:acme ABCD2345")
def pairing_approve(
    context: typer.Context, account: AccountWord, code: Annotated[str, typer.Argument(help="What the person was given.")]
) -> None:
    """Let in whoever was given a code. Only for somebody who gave it to you himself."""
    from hermes_cli.commands import people

    _done(people.approve(context.obj, account, code))


@pairing.command("revoke")
def pairing_revoke(
    context: typer.Context, account: AccountWord, person: Annotated[str, typer.Argument(help="The platform's id.")]
) -> None:
    """Put somebody out again who was let in by a code."""
    from hermes_cli.commands import people

    _done(people.revoke(context.obj, account, person))


@app.command(epilog="Example: hermes audit --json | jq '.[] | select(.action == \"linked\")'")
def audit(
    context: typer.Context,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1, max=10_000)] = 50,
    sent: Annotated[bool, typer.Option("--sent", help="Also who sent messages, and on which day.")] = False,
    as_json: Json = False,
) -> None:
    """Print who let in, linked, approved or denied whom and what, newest first (needs a key of the scope people)."""
    from hermes_cli.commands import people

    _done(people.audit(context.obj, most=limit, sent=sent, as_json=as_json))


@app.command(epilog="Example: hermes logs tour -f; hermes logs s3k... --container sandbox")
def logs(
    context: typer.Context,
    session: SessionWord,
    container: Annotated[str, typer.Option(help="agent or sandbox.")] = "agent",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    tail: Annotated[int, typer.Option(help="How many lines of the past; -1 for all.", min=-1)] = 200,
    previous: Annotated[bool, typer.Option(help="Of the container before its last restart.")] = False,
) -> None:
    """Print what a session's containers log (needs kubectl)."""
    from hermes_cli.commands import cluster

    if container not in ("agent", "sandbox"):
        raise typer.BadParameter("agent or sandbox", param_hint="--container")
    _done(cluster.logs(context.obj, session, cluster.LogsWanted(container, follow, tail, previous)))


@app.command(epilog="Example: hermes doctor --send; hermes doctor --json | jq '.[] | select(.state != \"ok\")'")
def doctor(
    context: typer.Context,
    send_one: Annotated[bool, typer.Option("--send", help="Send a test message, too.")] = False,
    as_json: Json = False,
) -> None:
    """Look for what is wrong, one thing after the other, and say what to do. Exit code 1 when something is."""
    from hermes_cli.commands import examining

    _done(examining.doctor(context.obj, send=send_one, as_json=as_json))


def main() -> None:
    """Run the command that the command line names."""
    app(args=hoist(sys.argv[1:]), prog_name="hermes")
