"""famulus.toml as pydantic models: every key, its unit, its default and its bounds.

How files and the environment become these models is in ``settings_files.py``.
"""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Bus(_Section):
    """Where famulus is found by other programs."""

    address: str = Field(
        default="auto",
        description="auto (the session bus where there is one, else the system bus), session, system, none, "
        "or a D-Bus address such as unix:path=/run/bus",
    )
    name: str = Field(default="org.famulus.Agent", description="The well-known name to own.")


class Audio(_Section):
    """Where sound comes from."""

    source: Literal["microphone", "file", "none"] = Field(
        default="microphone", description="microphone, file (a recording or a FIFO of raw audio), or none."
    )
    device: str = Field(default="", description="Part of the microphone's name; empty for the system's default.")
    file: str = Field(
        default="",
        description="For source = file: a WAV or FLAC file, or a FIFO of 16 kHz mono s16le samples.",
    )


class Wake(_Section):
    """The wake word."""

    engine: Literal["micro", "openwakeword"] = Field(default="micro", description="Which detector listens.")
    keywords: tuple[str, ...] = Field(default=("hey_jarvis",), description="Names, or paths of own models.")
    threshold: float = Field(default=0, ge=0, le=1, description="Score that fires; 0 for the model's own.")
    refractory_s: float = Field(default=1.0, ge=0, le=10, description="Deaf time after a hit.")


class Listen(_Section):
    """When a sentence starts and ends."""

    start_s: float = Field(default=5.0, gt=0, le=30, description="Wait this long for the first word.")
    silence_s: float = Field(default=0.5, ge=0.2, le=3, description="This much silence ends the sentence.")
    max_s: float = Field(default=10.0, gt=1, le=30, description="A sentence is cut here.")
    threshold: float = Field(default=0.5, gt=0, lt=1, description="Speech probability that counts as speech.")


class Asr(_Section):
    """Speech to text."""

    model: str = Field(default="moonshine-tiny-en", description="A model id (famulus models list).")
    keep_alive_s: float = Field(
        default=300, ge=-1, description="Unload after so many idle seconds; 0 at once, -1 never."
    )
    threads: int = Field(default=1, ge=1, le=64, description="Decoding threads.")
    timeout_s: float = Field(default=15, gt=0, le=120, description="Longest wait for a transcript.")


class Llm(_Section):
    """The language model on the device."""

    model: str = Field(
        default="smollm2-135m", description="A model id, the whole path of a .gguf file, or empty for sentences only."
    )
    keep_alive_s: float = Field(
        default=300, ge=-1, description="Unload after so many idle seconds; 0 at once, -1 never."
    )
    threads: int = Field(default=0, ge=0, le=64, description="0: one fewer than the cores.")
    context: int = Field(default=2048, ge=256, le=32768, description="Context length in tokens.")
    max_tokens: int = Field(default=96, ge=8, le=1024, description="Longest answer in tokens.")


class Embedder(_Section):
    """The sentence encoder, which finds what was meant where no sentence of a command matches."""

    model: str = Field(default="use", description="A model id, or empty for none.")
    keep_alive_s: float = Field(
        default=300, ge=-1, description="Unload after so many idle seconds; 0 at once, -1 never."
    )
    threads: int = Field(default=1, ge=1, le=64, description="Threads of the matrix library.")
    timeout_s: float = Field(default=30, gt=0, le=120, description="Longest wait, learning new commands included.")


class Memory(_Section):
    """How much the models may take together."""

    budget_mb: int = Field(default=0, ge=0, description="0: three quarters of this machine's memory.")
    reserve_mb: int = Field(default=150, ge=0, description="Never load a model that would leave less than this.")


class Models(_Section):
    """Where model files are fetched from."""

    mirror: str = Field(
        default="",
        description="https://… that takes the place of scheme and host in the catalogue's addresses; {host} in it "
        "becomes that host.",
    )

    @field_validator("mirror")
    @classmethod
    def _is_address(cls, mirror: str) -> str:
        if mirror and not re.fullmatch(r"https?://[^/\s]+\S*", mirror):
            raise PydanticCustomError("mirror", "must be empty or an address such as https://models.example/{host}")
        return mirror


class Agent(_Section):
    """How a sentence is worked on."""

    language: Literal["auto", "en", "zh"] = Field(default="auto", description="auto: by the sentence itself.")
    budget_s: float = Field(default=120, gt=0, le=600, description="Longest run, all stages together.")
    queue: int = Field(default=8, ge=1, le=64, description="Runs that may wait; one more is refused.")


class Storage(_Section):
    """Where things are kept; empty: $STATE_DIRECTORY of the service, else the XDG directories."""

    state: str = Field(default="", description="Timers and other state that must survive.")
    cache: str = Field(default="", description="What can be made again.")
    models: str = Field(default="", description="Model files.")


class Log(_Section):
    """What is written to the journal, or to stderr without one."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Only DEBUG holds what people say."
    )


class Metrics(_Section):
    """Counts and states for a Prometheus server, at /metrics; no words."""

    listen: str = Field(
        default="",
        description="127.0.0.1:9099, or unix:/path in a folder that famulus may write to, such as its state's; "
        "empty for none. Only this machine can be served.",
    )

    @field_validator("listen")
    @classmethod
    def _is_local(cls, listen: str) -> str:
        if listen and not _SOCKET.fullmatch(listen) and not _is_loopback(listen):
            raise PydanticCustomError(
                "listen", "must be empty, unix:/path or a loopback address with a port such as 127.0.0.1:9099"
            )
        return listen


_SOCKET = re.compile(r"unix:/[^\0]+")


def _is_loopback(listen: str) -> bool:
    host, _, port = listen.rpartition(":")
    try:
        return ip_address(host.strip("[]")).is_loopback and 0 <= int(port) <= 65535
    except ValueError:
        return False


class Settings(_Section):
    """All of famulus.toml."""

    bus: Bus = Bus()
    audio: Audio = Audio()
    wake: Wake = Wake()
    listen: Listen = Listen()
    asr: Asr = Asr()
    llm: Llm = Llm()
    embedder: Embedder = Embedder()
    memory: Memory = Memory()
    models: Models = Models()
    agent: Agent = Agent()
    storage: Storage = Storage()
    log: Log = Log()
    metrics: Metrics = Metrics()

    def state_dir(self) -> Path:
        return _directory(self.storage.state, "STATE_DIRECTORY", "XDG_STATE_HOME", ".local/state")

    def cache_dir(self) -> Path:
        return _directory(self.storage.cache, "CACHE_DIRECTORY", "XDG_CACHE_HOME", ".cache")


def _directory(configured: str, systemd_variable: str, xdg_variable: str, fallback: str) -> Path:
    if configured:
        return Path(configured).expanduser()
    if systemd := os.environ.get(systemd_variable, ""):
        return Path(systemd.split(":")[0])  # systemd separates several directories with colons
    if base := os.environ.get(xdg_variable, ""):
        return Path(base) / "famulus"
    return Path.home() / fallback / "famulus"
