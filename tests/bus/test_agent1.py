"""org.famulus.Agent1 over a real bus."""

from __future__ import annotations

import json

import pytest
from dbus_fast import Variant


async def test_ask_gives_the_reply_and_the_result(served, client):
    reply, result = await client.ask("good day", language=Variant("s", "en"), session=Variant("s", "kitchen"))
    assert reply == "good day"
    assert {key: variant.value for key, variant in result.items()} == {
        "run": "r1",
        "status": "done",
        "decided_by": "sentences",
        "error": "",
        "calls": "[]",
        "stages_ms": {"intent": 0.5},
    }
    utterance = served.agent.utterances[0]
    assert (utterance.source, utterance.language, utterance.session) == ("bus", "en", "kitchen")
    assert utterance.owner == client.bus.unique_name
