"""What the commands print, as plain functions from values to text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .style import Style, clean

if TYPE_CHECKING:
    from ...client import Event, Reply

PLAIN = Style()
_GOOD = {"ok", "ready", "idle", "unloaded", "busy", "done"}
_BAD = {"failed", "lost", "deaf", "timed_out"}


def as_json(value: object, *, indent: int | None = 2) -> str:
    """JSON for programs; one line with ``indent=None``."""
    return json.dumps(value, indent=indent, ensure_ascii=False, default=str)


def run_details(reply: Reply, style: Style = PLAIN) -> str:
    """The calls of a run, who decided, and the milliseconds of each stage; a line each."""
    lines = [_call_line(call, style) for call in reply.calls]
    times = {**reply.voice_ms, **reply.stages_ms}
    facts = [f"decided by {reply.decided_by or 'nothing'}"]
    facts += [f"{stage} {milliseconds:.1f} ms" for stage, milliseconds in times.items()]
    lines.append(style("  " + " · ".join(facts), "dim"))
    return "\n".join(lines)


def _call_line(call: Mapping[str, Any], style: Style) -> str:
    args = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.get("args", {}).items())
    error = call.get("outcome", {}).get("error")
    mark = style(f"failed: {clean(error.get('code', ''))}", "red") if error else style("ok", "green")
    return f"  {clean(call.get('method', ''))}({clean(args)}) {mark}"


def event_line(event: Event, at: str, style: Style = PLAIN) -> str:
    """One event on one line; ``at`` is the time to show."""
    words = " ".join(clean(part).replace("\n", " ") for part in _event_words(event) if part)
    colour = {"wake": "yellow", "finished": "green" if event.reply and event.reply.ok else "red"}.get(event.kind, "")
    kind = f"{event.kind:<10}"
    return f"{style(at, 'dim')} {style(kind, colour) if colour else kind} {words}".rstrip()


def _event_words(event: Event) -> Iterator[str]:
    data = event.data
    if event.run:
        yield event.run
    match event.kind:
        case "wake":
            yield f"{data.get('keyword', '')} {data.get('score', 0):.2f}"
        case "timer":
            yield f"{data.get('id', '')} {data.get('label', '')}"
        case "stage":
            yield str(data.get("stage", ""))
            yield from (f"{key}={value}" for key, value in data.items() if key != "stage")
        case "transcript":
            yield event.text if data.get("final", True) else f"{event.text} …"
        case "finished" if event.reply is not None:
            total = sum(event.reply.stages_ms.values())
            yield f"{event.reply.status} {total:.1f} ms"
            yield ", ".join(str(call.get("method", "")) for call in event.reply.calls)
            yield event.reply.text
        case _:
            yield event.text


def event_json(event: Event) -> dict[str, Any]:
    """An event as JSON values."""
    from dataclasses import asdict

    return asdict(event)


def status_text(status: Mapping[str, Any], style: Style = PLAIN) -> str:
    """The state of all parts for a person."""
    facts = [
        style(f"famulus {clean(status.get('version', ''))}".strip(), "bold"),
        _state(status.get("state", "unknown"), style),
    ]
    if "mode" in status:
        facts.append(f"mode {clean(status['mode'])}")
    if "uptime_s" in status:
        facts.append(f"up {span(status['uptime_s'])}")
    if "memory_mb" in status:
        facts.append(f"{status['memory_mb']:g} MB")
    lines = [" · ".join(facts)]
    slots: Sequence[Mapping[str, Any]] = status.get("slots", ())
    names = {slot.get("name") for slot in slots}
    health = {part: state for part, state in status.get("health", {}).items() if part not in names}
    microphone = status.get("microphone", {})
    notes = {"microphone": _microphone_note(microphone), "board": _board_note(status)}
    rows = [(clean(part), _state(state, style), notes.get(part, "")) for part, state in health.items()]
    rows += [(clean(slot.get("name", "")), _state(slot.get("state"), style), _slot_note(slot)) for slot in slots]
    lines += table(rows)
    capabilities = status.get("capabilities", {})
    if capabilities:
        offered = ", ".join(f"{clean(name)} ({count})" for name, count in capabilities.items())
        lines.append(f"  capabilities: {offered}")
    for run in status.get("last_runs", ()):
        facts = [clean(run[key]) for key in ("run", "status", "decided_by") if run.get(key)]
        stages = ", ".join(f"{clean(stage)} {ms:g}" for stage, ms in run.get("stages_ms", {}).items())
        spent = f"{run.get('ms', 0):g} ms{f' ({stages})' if stages else ''}"
        lines.append(style(f"  run {' '.join(facts)} {spent}", "dim"))
    return "\n".join(lines)


def _state(state: object, style: Style) -> str:
    word = clean(state)
    colour = "green" if word in _GOOD else "red" if word in _BAD else "yellow"
    return style(word, colour)


def _microphone_note(microphone: Mapping[str, Any]) -> str:
    parts = [clean(microphone.get("source") or ""), clean(microphone.get("message") or "")]
    if microphone.get("level_dbfs") is not None:
        parts.append(f"{microphone['level_dbfs']:g} dBFS")
    return " · ".join(part for part in parts if part)


def _board_note(status: Mapping[str, Any]) -> str:
    parts = [clean(flag).replace("_", " ") for flag in status.get("throttled", ())]
    if status.get("temperature_c") is not None:
        parts.append(f"{status['temperature_c']:g} °C")
    if status.get("memory_available_mb") is not None:
        parts.append(f"{status['memory_available_mb']:,} MB available")
    return " · ".join(parts)


def _slot_note(slot: Mapping[str, Any]) -> str:
    parts = [clean(slot.get("reason") or "")]
    if slot.get("memory_mb"):
        parts.append(f"{slot['memory_mb']:g} MB")
    if slot.get("expires_in_s") is not None:
        parts.append(f"unloads in {span(slot['expires_in_s'])}")
    if slot.get("queue"):
        parts.append(f"{slot['queue']} waiting")
    return " · ".join(part for part in parts if part)


def capabilities_text(capabilities: Iterable[Mapping[str, Any]], style: Style = PLAIN) -> str:
    """What can be done: each command with its parameters and something to say for it."""
    lines: list[str] = []
    for capability in capabilities:
        heading = style(clean(capability.get("name", "")), "bold")
        about = clean(capability.get("description") or "")
        lines.append(f"{heading}  {about}".rstrip())
        for command in capability.get("commands", ()):
            lines.append(f"  {clean(command.get('name', ''))}({_parameters(command)})  {clean(command['description'])}")
            example = next(iter(command.get("examples", ())), None)
            if example:
                said = f"“{clean(example.get('text', ''))}”"
                lines.append(style(f"    {said}", "dim"))
    return "\n".join(lines) or "No capability is registered."


def _parameters(command: Mapping[str, Any]) -> str:
    schema = command.get("parameters", {})
    required = schema.get("required", ())
    names = schema.get("properties", {})
    return ", ".join(clean(name if name in required else f"[{name}]") for name in names)


def table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Rows with aligned columns, indented; a state's colours take no room."""
    widest = max((len(name) for name, _, _ in rows), default=0)
    return [f"  {name:<{widest}}  {state}{f'  {note}' if note else ''}" for name, state, note in rows]


def span(seconds: float) -> str:
    """A length of time in its two largest units: "3 h 5 min"."""
    rest = int(seconds)
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
