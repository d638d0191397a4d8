from __future__ import annotations

from pathlib import Path

import pytest
from famulus.core import errors
from famulus.core.texts import Texts
from famulus.daemon.texts import TEXTS


@pytest.mark.parametrize("cls", errors._CLASSES)
def test_every_error_survives_the_wire_and_the_bus(cls: type[errors.FamulusError]) -> None:
    error = cls("what to do")
    assert type(errors.error_from_code(error.code, error.message)) is cls
    assert type(errors.error_from_dbus_name(error.dbus_name, error.message)) is cls
    assert error.dbus_name.startswith("org.famulus.Error.") and str(error) == "what to do"


def test_an_unknown_code_or_name_becomes_failed() -> None:
    assert type(errors.error_from_code("x", "m")) is errors.Failed
    assert type(errors.error_from_dbus_name("org.freedesktop.DBus.Error.NoReply", "m")) is errors.Failed


def test_a_missing_language_falls_back_to_english(tmp_path: Path) -> None:
    file = tmp_path / "texts.toml"
    file.write_text('[hello]\nen = "Hello {name}"\n', encoding="utf-8")
    assert Texts(file).get("hello", "zh", name="you") == "Hello you"


def test_the_daemon_says_everything_in_both_languages() -> None:
    for key in TEXTS.messages:
        assert TEXTS.get(key, "en") != TEXTS.get(key, "zh")
