"""From text to calls: how many utterances of a file are understood right, by which stage, in what time."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..capabilities.command import Call, Capability, Outcome, Risk
from ..capabilities.provider import CallContext
from ..capabilities.registry import Registry
from ..core.errors import InvalidArguments, NotFound
from ..daemon.agent.local import LocalPipeline
from ..daemon.agent.meaning.matcher import SemanticMatcher
from ..daemon.agent.run import Utterance
from ..daemon.agent.understand import Understander
from ..engines.handles import EmbedderHandle, LanguageModelHandle
from ..engines.pool import Pool
from ..engines.process import ProcessHost
from ..engines.slot import Slot
from ..models.catalogue import Catalogue, Role
from ..models.store import Store, default_root
from .declared import ANSWER, DATA, load_capability
from .machine import fingerprint
from .measurement import measured, spread
from .registry import Run, suite
from .report import Report, Table
from .scoring import RESTRAINT, Item, Scorer, load_items

_GB = 1 << 30
_TIMEOUT_S = 120.0
_EMBEDDER = "use"
_PROFILES = ("generate",)
"""How a language model is asked; more are offered as the pipeline learns them."""


@dataclass(frozen=True)
class Answer:
    """What came of one utterance; ``stage`` is who decided, ``""`` where nobody did."""

    item: Item
    calls: tuple[Call, ...]
    stage: str
    ms: float
    methods_right: bool
    right: bool


@suite("understanding", help="how many utterances of a file become the right calls, by which stage, how fast")
def _setup(parser: argparse.ArgumentParser) -> Run:
    parser.add_argument("--commands", type=Path, default=DATA / "commands.json", metavar="FILE")
    parser.add_argument("--data", type=Path, default=DATA / "understanding-dev.json", metavar="FILE")
    parser.add_argument("--phrases", type=Path, default=DATA / "phrases.json", metavar="FILE")
    parser.add_argument("--model", metavar="ID|PATH", help="also ask a language model: of the catalogue, or a .gguf")
    parser.add_argument("--profile", choices=_PROFILES, default=_PROFILES[0], help="how the model is asked")
    parser.add_argument("--context", type=int, default=4096, help="of the model, in tokens (default: %(default)s)")
    parser.add_argument("--sentences-only", action="store_true", help="without the sentence encoder")
    parser.add_argument("--show", type=int, default=40, metavar="N", help="list so many misses (default: %(default)s)")
    return _run


async def _run(args: argparse.Namespace) -> Report:
    capability = await asyncio.to_thread(load_capability, args.commands, args.phrases)
    items = await asyncio.to_thread(load_items, args.data)
    if not items:
        raise InvalidArguments(f"{args.data} holds no utterance.")
    machine = await asyncio.to_thread(fingerprint)
    registry = Registry()
    registry.register(capability, _Deaf())
    async with AsyncExitStack() as stack:
        understander, model = await _understander(args, registry, stack)
        begin = time.monotonic()
        for language in dict.fromkeys(item.language for item in items):
            await _ask(understander, Utterance("hm", language=language))  # loads, learns and compiles
        ready_s = time.monotonic() - begin
        scorer = Scorer(capability.commands)
        answers = [await _answer(understander, scorer, item) for item in items]
    parameters = {
        "commands": args.commands.name,
        "data": args.data.name,
        "phrases": args.phrases.name,
        "model": model,
        "profile": args.profile if model else "",
        "encoder": not args.sentences_only,
    }
    return _report(
        answers, machine=machine, parameters=parameters, capability=capability, ready_s=ready_s, show=args.show
    )


class _Deaf:
    """A provider for commands that are only understood."""

    async def invoke(self, command: str, args: dict[str, Any], context: CallContext) -> Outcome:
        return Outcome()

    async def cancel(self, call_id: str) -> None:
        return None


async def _understander(
    args: argparse.Namespace, registry: Registry, stack: AsyncExitStack
) -> tuple[Understander, str]:
    scratch = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="famulus-bench-")
    stack.push_async_callback(asyncio.to_thread, scratch.cleanup)
    pool = Pool(64 * _GB, 0)
    stack.push_async_callback(pool.close)
    semantic = None
    if not args.sentences_only:
        files = await asyncio.to_thread(_files, _EMBEDDER, "embedder")
        options = {**files, "cache_dir": scratch.name}
        encoder = Slot(
            _EMBEDDER,
            EmbedderHandle,
            lambda: ProcessHost("use", options, name=_EMBEDDER),
            pool=pool,
            need_bytes=_GB // 4,
            keep_alive_s=-1,
        )
        semantic = SemanticMatcher(encoder, commands=registry.commands, timeout_s=_TIMEOUT_S)
    if not args.model:
        return Understander(registry, None, semantic=semantic), ""
    path = await asyncio.to_thread(_model_path, args.model)
    model_options = {
        "model": str(path),
        "threads": max(1, (os.cpu_count() or 2) - 1),
        "context": args.context,
        "state_dir": scratch.name,
    }
    slot = Slot(
        "llm",
        LanguageModelHandle,
        lambda: ProcessHost("llama_cpp", model_options, name="llm"),
        pool=pool,
        need_bytes=_GB,
        keep_alive_s=-1,
    )
    pipeline = LocalPipeline(
        slot,
        commands=registry.commands,
        validate=registry.validate,
        context=args.context,
        max_tokens=96,
        timeout_s=_TIMEOUT_S,
    )
    await pipeline.prefetch()
    return Understander(registry, pipeline, semantic=semantic), args.model


def _files(model: str, role: Role) -> dict[str, str]:
    entry = Catalogue.load().entry(model)
    if entry.role != role:
        raise InvalidArguments(f"{model} is a model for {entry.role}; choose one for {role}.")
    return {name: str(path) for name, path in Store(default_root()).files(entry).items()}


def _model_path(model: str) -> Path:
    if not model.endswith(".gguf"):
        return Path(_files(model, "llm")["model"])
    path = Path(model).expanduser().resolve()
    if not path.is_file():
        raise NotFound(f"{path} is missing; --model takes a .gguf or an id of `famulus models list`.")
    return path


async def _ask(understander: Understander, utterance: Utterance) -> tuple[tuple[Call, ...], str]:
    found = await understander.quick(utterance) or await understander.ask_model(utterance)
    return found.calls, found.decided_by


async def _answer(understander: Understander, scorer: Scorer, item: Item) -> Answer:
    begin = time.perf_counter()
    calls, stage = await _ask(understander, Utterance(item.text, language=item.language))
    ms = (time.perf_counter() - begin) * 1000
    return Answer(item, calls, stage, ms, scorer.methods_right(item, calls), scorer.right(item, calls))


def _report(
    answers: Sequence[Answer],
    *,
    machine: dict[str, Any],
    parameters: dict[str, Any],
    capability: Capability,
    ready_s: float,
    show: int,
) -> Report:
    dangerous = {command.name for command in capability.commands if command.risk is Risk.DANGEROUS}
    harmful = [answer for answer in answers if _is_harmful(answer, dangerous)]
    restrained = [answer for answer in answers if answer.item.kind in RESTRAINT]
    misses = [answer for answer in answers if not answer.right]
    languages = list(dict.fromkeys(answer.item.language for answer in answers))
    kinds = list(dict.fromkeys(answer.item.kind for answer in answers))
    groups: list[tuple[str, list[Answer]]] = [("all", list(answers))]
    groups += [(language, [a for a in answers if a.item.language == language]) for language in languages]
    groups += [(kind, [a for a in answers if a.item.kind == kind]) for kind in kinds]
    groups += [
        (f"{kind} {language}", [a for a in answers if a.item.kind == kind and a.item.language == language])
        for kind in kinds
        for language in languages
    ]
    groups.append(("restraint", restrained))
    stages = {stage: [a for a in answers if (a.stage or "nobody") == stage] for stage in _stages(answers)}
    confusion = Counter((_names(a.item.right[0]), _names(a.calls)) for a in answers if not a.methods_right)
    times = {stage: spread([answer.ms for answer in group]) for stage, group in [("all", answers), *stages.items()]}
    results = {
        "groups": {name: _score(group) for name, group in groups if group},
        "stages": {stage: _score(group) for stage, group in stages.items()},
        "milliseconds": times,
        "ready_s": round(ready_s, 3),
        "wrong_dangerous_calls": [answer.item.id for answer in harmful],
        "confusion": [{"right": r, "got": g, "count": n} for (r, g), n in confusion.most_common()],
        "misses": [_miss(answer) for answer in misses],
    }
    tables = (
        Table(
            "Right, in percent (restraint: chat and unsupported answered by no call)",
            ("", "utterances", "commands", "commands + arguments"),
            tuple((name, *_percent(group)) for name, group in groups if group),
        ),
        Table(
            "By stage",
            ("stage", "utterances", "commands", "commands + arguments", "ms median", "ms p90"),
            tuple(
                (stage, *_percent(group), times[stage]["median"], times[stage]["p90"])
                for stage, group in [("all", list(answers)), *stages.items()]
            ),
        ),
        Table(
            "Confused commands", ("right", "got", "times"), tuple((r, g, n) for (r, g), n in confusion.most_common())
        ),
        Table(
            "Misses",
            ("id", "kind", "text", "got", "by"),
            tuple((m["id"], m["kind"], m["text"], m["got"], m["stage"]) for m in map(_miss, misses[:show])),
        ),
    )
    return Report(
        suite="understanding",
        machine=machine,
        parameters=parameters,
        results=results,
        tables=tables,
        notes=(
            f"Wrong dangerous calls: {len(harmful)}.",
            f"Ready to understand after {ready_s:.1f} s (process, weights, learning the phrases, templates).",
        ),
        ok=not harmful,
        measurements=(
            measured("understanding", "commands right", "%", _hits(answers, lambda a: a.methods_right), "higher"),
            measured("understanding", "commands and arguments right", "%", _hits(answers, lambda a: a.right), "higher"),
            measured("understanding", "restraint", "%", _hits(restrained, lambda a: a.methods_right), "higher"),
            measured("understanding", "text to calls", "ms", (a.ms for a in answers), "lower", budget="<= 400 median"),
        ),
    )


def _is_harmful(answer: Answer, dangerous: set[str]) -> bool:
    wanted = {call.method for right in answer.item.right for call in right}
    return any(call.method in dangerous and call.method not in wanted for call in answer.calls)


def _stages(answers: Iterable[Answer]) -> list[str]:
    return sorted({answer.stage or "nobody" for answer in answers}, key=lambda stage: (stage == "nobody", stage))


def _score(answers: Sequence[Answer]) -> dict[str, Any]:
    return {
        "n": len(answers),
        "commands": round(sum(a.methods_right for a in answers) / len(answers), 4),
        "commands_and_arguments": round(sum(a.right for a in answers) / len(answers), 4),
    }


def _percent(answers: Sequence[Answer]) -> tuple[int, float, float]:
    score = _score(answers)
    return score["n"], 100 * score["commands"], 100 * score["commands_and_arguments"]


def _hits(answers: Iterable[Answer], is_hit: Callable[[Answer], bool]) -> list[float]:
    return [100.0 if is_hit(answer) else 0.0 for answer in answers]


def _names(calls: Sequence[Call]) -> str:
    return " + ".join(call.method for call in calls) or ANSWER


def _miss(answer: Answer) -> dict[str, str]:
    got = " + ".join(f"{call.method} {call.args or ''}".strip() for call in answer.calls)
    return {
        "id": answer.item.id,
        "kind": answer.item.kind,
        "text": answer.item.text,
        "got": got or ANSWER,
        "stage": answer.stage or "nobody",
    }
