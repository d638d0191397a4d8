"""Asking by text, with the real language model in its worker and the app in another process."""

import asyncio
import os
import signal

import pytest
from famulus.bench.rig import Rig
from famulus.client.events import Reply

pytestmark = [pytest.mark.e2e, pytest.mark.models, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

INDIRECT = "could you make it bright in the kitchen"  # no sentence template says it: a model must


async def commands(rig: Rig) -> set[str]:
    return {command["name"] for capability in await rig.client.capabilities() for command in capability["commands"]}


def assert_for_people(text: str) -> None:
    assert text
    assert not set(text) & set("{}[]<>|"), text


async def assert_answered(rig: Rig, reply: Reply) -> None:
    """Valid calls that were carried out, or a plain sentence that it was not understood."""
    assert reply.decided_by == "model"
    assert reply.status in ("done", "not_understood")
    assert bool(reply.calls) == (reply.status == "done")
    assert {call["method"] for call in reply.calls} <= await commands(rig)
    assert all(call["outcome"]["error"] is None for call in reply.calls)
    assert_for_people(reply.text)


async def test_a_sentence_that_a_template_knows_needs_no_model(reading_rig: Rig) -> None:
    reply = await reading_rig.client.ask("Switch off the lamp in the kitchen!")
    assert (reply.status, reply.decided_by) == ("done", "sentences")
    assert await reading_rig.lamp.changes_since(0, 1) == [{"light": "off", "room": "kitchen"}]
    assert await reading_rig.daemon.children() == []


async def test_an_indirect_wish_is_understood_by_its_likeness_to_what_the_app_declared(reading_rig: Rig) -> None:
    reply = await reading_rig.client.ask(INDIRECT)
    assert reply.decided_by in ("semantic", "model")
    assert reply.status in ("done", "not_understood")
    assert {call["method"] for call in reply.calls} <= await commands(reading_rig)
    assert_for_people(reply.text)


async def test_an_indirect_wish_goes_through_the_model_to_valid_calls_or_a_plain_sentence(model_rig: Rig) -> None:
    await assert_answered(model_rig, await model_rig.client.ask(INDIRECT))


async def test_the_language_worker_killed_in_mid_run_is_told_and_the_next_run_works(model_rig: Rig) -> None:
    worker = await model_rig.daemon.worker("libllama")
    since = len(model_rig.moments.all)
    os.kill(worker, signal.SIGSTOP)  # so that it cannot be done before it is killed
    asking = asyncio.create_task(model_rig.client.ask("it is rather gloomy over by the sink"))
    await model_rig.moments.until(
        lambda: any(moment.event.data.get("stage") == "select" for moment in model_rig.moments.all[since:]), 10
    )
    os.kill(worker, signal.SIGKILL)
    broken = await asking
    assert (broken.status, broken.error, broken.calls) == ("failed", "model_unavailable", [])
    assert_for_people(broken.text)
    await assert_answered(model_rig, await model_rig.client.ask("it is rather gloomy over by the sink"))


async def test_the_commands_of_a_killed_app_are_gone_within_a_second_and_asking_says_so(reading_rig: Rig) -> None:
    assert "light.on" in await commands(reading_rig)
    reading_rig.lamp.kill()
    async with asyncio.timeout(1):
        while "light.on" in await commands(reading_rig):  # noqa: ASYNC110 - the client has no event for it
            await asyncio.sleep(0.01)
    reply = await reading_rig.client.ask("turn on the kitchen light")
    assert (reply.status, reply.error) == ("failed", "not_found")
    assert "lamp" in reply.text and "is not running" in reply.text
