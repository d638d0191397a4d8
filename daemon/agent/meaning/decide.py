"""From a classifier's probabilities to calls: which clauses are wishes, which command each means, and how sure that is.

Every run of neighbouring clauses is a candidate; the division of the sentence with the highest probability wins
(dynamic programming), so that "I am freezing. Twenty-two, please" is one wish and "lights on and play some jazz"
are two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ....capabilities.command import Call, Command, Language, Risk
from .arguments import read_arguments
from .declared_words import is_in_declared_words
from .disfluency import Fluent
from .examples import NONE

Zone = Literal["sure", "unsure", "none"]

SURE = 0.45
"""From it on the calls are carried out. Chosen on the development set and the held-out sentences of the benchmark:
higher costs indirect wishes, lower costs restraint."""
CHANCE = 0.25
"""Below it there is no command in the sentence."""
RISKY = 0.8
"""What a command needs that could do harm, beside its own declared words."""
_SPLIT = 0.05
_DROPPED = 0.5
_FOUND = 0.3
"""In nats: what one more part, and a part that is no wish beside others, cost; what a further sure command gains."""
_CONSIDERED = 5
_LEAST = 0.03
_CERTAIN = 0.98
_HELD_BACK = 0.5
"""How much of the probability of commands that lack an argument is lost to "none of these"."""
MAX_WISHES = 4


@dataclass(frozen=True)
class Wish:
    """One part of a sentence: its calls (none: no command) and their probability."""

    calls: tuple[Call, ...]
    probability: float


@dataclass(frozen=True)
class Meaning:
    """``calls`` where ``zone`` is sure or unsure. ``candidates`` are the commands a model may choose from."""

    zone: Zone
    calls: tuple[Call, ...] = ()
    confidence: float = 0.0
    candidates: tuple[str, ...] = ()


def spans_of(clauses: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and past-the-last clause of every run of neighbours, the whole first."""
    count = len(clauses)
    return sorted(((i, j) for i in range(count) for j in range(i + 1, count + 1)), key=lambda s: s[0] - s[1])


def decide(
    said: Fluent,
    language: Language,
    clauses: Sequence[tuple[int, int]],
    probabilities: Mapping[tuple[int, int], Mapping[str, float]],
    commands: Mapping[str, Command],
    *,
    templates: Mapping[tuple[int, int], Sequence[Call]] | None = None,
) -> Meaning:
    """The meaning of a sentence; ``probabilities`` of command names and ``NONE`` for each run of ``spans_of``.

    ``templates`` holds what the commands' own templates make of a run, which is as good as certain, except for a
    command that could do harm: "he said: reboot".
    """
    wishes = {
        span: _wish(_part(said, clauses[span[0]][0], clauses[span[1] - 1][1]), language, probabilities[span], commands)
        for span in probabilities
    }
    harmless = {name for name, command in commands.items() if command.risk is Risk.SAFE}
    for span, known in (templates or {}).items():
        if known and all(call.method in harmless for call in known):
            wishes[span] = Wish(tuple(known), _CERTAIN)

    def score(start: int, end: int, before: tuple[Wish, ...]) -> float:
        wish = wishes[start, end]
        score = math.log(max(wish.probability, 1e-6)) - (_SPLIT if start else 0.0)
        if not wish.calls:
            return score - (_DROPPED if end - start < len(clauses) else 0.0)
        methods = {call.method for other in before for call in other.calls}
        is_further = bool(methods) and wish.calls[0].method not in methods and wish.probability >= SURE
        return score + (_FOUND if is_further else 0.0)

    best: list[tuple[float, tuple[Wish, ...]]] = [(0.0, ())]
    for end in range(1, len(clauses) + 1):
        options = [
            (
                best[start][0] + score(start, end, best[start][1]),
                (*best[start][1], wishes[start, end]),
            )
            for start in range(end)
        ]
        best.append(max(options, key=lambda option: option[0]))
    chosen = [wish for wish in best[-1][1] if wish.calls]
    whole = probabilities[0, len(clauses)]
    ranked = sorted((name for name in whole if name != NONE), key=lambda name: -whole[name])
    candidates = tuple(dict.fromkeys([call.method for wish in chosen for call in wish.calls] + ranked[:3]))
    calls: list[Call] = []
    for call in (call for wish in chosen for call in wish.calls):
        if call not in calls:
            calls.append(call)
    confidence = min((wish.probability for wish in chosen), default=0.0)
    if confidence < CHANCE or len(calls) > MAX_WISHES:
        return Meaning("none", candidates=candidates, confidence=confidence)
    return Meaning("sure" if confidence >= SURE else "unsure", tuple(calls), confidence, candidates)


def _part(said: Fluent, start: int, end: int) -> Fluent:
    corrected = said.corrected_from - start
    return Fluent(said.text[start:end], corrected if 0 < corrected < end - start else 0)


def _wish(said: Fluent, language: Language, probability: Mapping[str, float], commands: Mapping[str, Command]) -> Wish:
    """The most probable command whose arguments were said; none where that is likelier, or a value is out of range."""
    held_back = 0.0
    for name in sorted(probability, key=lambda name: -probability[name])[:_CONSIDERED]:
        share = probability[name] / (1 - held_back * (1 - _HELD_BACK))
        if name == NONE or share < _LEAST:
            break
        command = commands.get(name)
        reading = read_arguments(command, said, language) if command else None
        if command is None or reading is None or reading.fault == "missing":
            held_back += probability[name]
            continue
        if reading.fault == "out_of_range":
            break
        if command.risk is not Risk.SAFE and not (
            share >= RISKY and is_in_declared_words(said.text, command, language)
        ):
            break
        return Wish(tuple(Call(method=name, args=args) for args in reading.args), min(share, 1.0))
    return Wish((), max(probability.get(NONE, 0.0) + held_back * _HELD_BACK, 0.05))
