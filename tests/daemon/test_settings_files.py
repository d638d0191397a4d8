from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from famulus.daemon.settings import Settings
from famulus.daemon.settings_files import SettingsError, default_toml, load_settings, show_toml


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_every_problem_is_told_at_once_with_its_source_and_a_guess(tmp_path: Path) -> None:
    file = write(tmp_path / "famulus.toml", '[audoi]\na=1\n[asr]\nmodell="x"\n[llm]\ncontext=1\n[wake]\nengine="x"\n')
    write(tmp_path / "famulus.d" / "10.toml", "agent = 3\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(file, {"FAMULUS_ASR__THREADS": "many", "FAMULUS_ASR__TREADS": "1", "FAMULUS_ARS__THREADS": "1"})
    told = "\n".join(map(str, caught.value.problems))
    for expected in (
        "did you mean audio?",
        "did you mean model?",
        "famulus.toml: llm.context",
        "famulus.toml: wake.engine",
        "10.toml: agent",
        "FAMULUS_ASR__THREADS: asr.threads",
        "did you mean threads?",
        "did you mean asr?",
    ):
        assert expected in told
    assert len(caught.value.problems) == 8


def test_later_sources_win_key_by_key(tmp_path: Path) -> None:
    file = write(tmp_path / "famulus.toml", '[asr]\nthreads=2\nmodel="a"\n[llm]\nthreads=3\n')
    write(tmp_path / "famulus.d" / "20.toml", "[asr]\nthreads=4\n")
    settings = load_settings(file, {"FAMULUS_LLM__THREADS": "5", "FAMULUS_WAKE__KEYWORDS": "alexa, okay_nabu"})
    assert (settings.asr.threads, settings.asr.model, settings.llm.threads) == (4, "a", 5)
    assert settings.wake.keywords == ("alexa", "okay_nabu")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[asr", b"asr = \n", b"\0"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "famulus.toml"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"famulus\.toml"):
        load_settings(file, {})


def test_a_named_file_must_exist_and_no_file_gives_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load_settings(tmp_path / "absent.toml", {})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("famulus.daemon.settings_files.SYSTEM_FILE", tmp_path / "etc" / "famulus.toml")
    assert load_settings(None, {}) == Settings()


def test_the_default_file_lists_every_key_and_means_the_defaults(tmp_path: Path) -> None:
    text = default_toml()
    uncommented = "\n".join(
        line.removeprefix("#") if line.startswith("#") and "# " not in line[:2] else line for line in text.splitlines()
    )
    assert Settings.model_validate(tomllib.loads(uncommented)) == Settings()
    assert load_settings(write(tmp_path / "famulus.toml", text), {}) == Settings()


def test_shown_settings_read_back_as_the_same(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path / "a.toml", '[audio]\ndevice = "a \\"b\\" \\\\ c"\n'), {})
    assert load_settings(write(tmp_path / "b.toml", show_toml(settings)), {}) == settings


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_folder_that_may_not_be_entered_is_told_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "famulus.d" / "10.toml", "")
    tmp_path.chmod(0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(SettingsError, match="cannot be read: Permission denied"):
            load_settings(tmp_path / "famulus.toml", {})
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # as sudo leaves it
        monkeypatch.setattr("famulus.daemon.settings_files.SYSTEM_FILE", Path("/etc/famulus-absent/famulus.toml"))
        assert load_settings(None, {}) == Settings()
    finally:
        os.seteuid(0)
