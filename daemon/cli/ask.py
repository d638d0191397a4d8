"""``famulus ask`` and ``famulus listen``: one sentence, typed or spoken, and what came of it."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING

from ...core.errors import Failed, InvalidArguments
from .codes import EXIT_CODES, FAILED, NOT_UNDERSTOOD, OK, tell
from .reach import add_bus_options, with_agent
from .render import as_json, run_details
from .style import Style, clean

if TYPE_CHECKING:
    from ...client import Agent, Reply

_MAX_INPUT = 16 * 1024
_MAX_TIMEOUT_S = 600


def add_ask_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``famulus ask TEXT…``"""
    parser = _add(commands, "ask", "have a sentence worked on and print the reply")
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the sentence; - reads it from standard input")
    parser.add_argument("--language", choices=("auto", "en", "zh"), default="auto", help="default: by the sentence")
    parser.add_argument("--session", default="", metavar="NAME", help="a name for the conversation")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="cancel after so long, at most 600")
    parser.set_defaults(handler=_ask)


def add_listen_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``famulus listen``"""
    parser = _add(commands, "listen", "push to talk: hear one sentence and print transcript and reply")
    parser.set_defaults(handler=lambda args: with_agent(args, lambda agent: _listen(agent, args)))


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="also print calls and milliseconds per stage")
    add_bus_options(parser)
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= _MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"must be above 0 and at most {_MAX_TIMEOUT_S}")
    return seconds


def _ask(args: argparse.Namespace) -> int:
    try:
        text = sentence(args.text)
    except InvalidArguments as error:
        return tell(error, as_json=args.json)

    async def work(agent: Agent) -> int:
        reply = await agent.ask(text, language=args.language, session=args.session, timeout_s=args.timeout)
        return _show(reply, args)

    return with_agent(args, work)


def sentence(words: list[str]) -> str:
    """The text of an ``ask``; raises ``InvalidArguments`` for what nobody can have written."""
    from ..agent.text import check_utterance

    text = _standard_input() if words == ["-"] else " ".join(words)
    return " ".join(check_utterance(text).split())


def _standard_input() -> str:
    content = sys.stdin.buffer.read(_MAX_INPUT + 1) if sys.stdin else b""  # None where it is closed
    if len(content) > _MAX_INPUT:
        raise InvalidArguments(f"The text has over {_MAX_INPUT:,} bytes: say it in fewer words.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidArguments("The text is not UTF-8: convert it first, for example with iconv.") from None


async def _listen(agent: Agent, args: argparse.Namespace) -> int:
    style = Style(sys.stdout)
    async with agent.subscribe() as events:
        run = await agent.listen()
        if not args.json:
            print("Listening …", file=sys.stderr)
        async for event in events:
            if event.run != run:
                continue
            if event.kind == "transcript" and not args.json:
                print(style(f"> {clean(event.text)}", "dim"), flush=True)
            if event.kind == "finished" and event.reply is not None:
                return _show(event.reply, args)
    raise Failed("The sentence did not come to an end; try again.")


def _show(reply: Reply, args: argparse.Namespace) -> int:
    """Print how a run ended: the reply on stdout, or what went wrong on stderr."""
    if args.json:
        print(as_json(dataclasses.asdict(reply)))
    else:
        text = clean(reply.text) or f"The run ended as {clean(reply.status)}."
        if reply.ok:
            print(text)
        else:
            print(f"famulus: {text}", file=sys.stderr)
        if args.verbose:
            print(run_details(reply, Style(sys.stdout)))
    return {"done": OK, "not_understood": NOT_UNDERSTOOD}.get(reply.status, FAILED)
