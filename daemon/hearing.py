"""The ear as Settings describe it: the audio source, the wake word, the voice activity detector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..core.errors import NotFound
from ..engines.protocols import KeywordSpotter
from ..models.catalogue import Catalogue
from ..models.store import Store
from .settings import Audio, Settings
from .voice.endpoint import Endpointer
from .voice.source import AudioSource


def make_source(audio: Audio) -> AudioSource | None:
    """The source that the settings name; None for a device that only reads."""
    if audio.source == "none":
        return None
    if audio.source == "file":
        from .voice.file_source import FileSource

        return FileSource(audio.file)
    from .voice.microphone import Microphone

    return Microphone(audio.device)


def spotter_factory(settings: Settings, catalogue: Catalogue, store: Store) -> Callable[[], KeywordSpotter]:
    """What loads the wake word. It reads model files, so it is called on the capture thread."""
    wake = settings.wake

    def micro() -> KeywordSpotter:
        from ..engines.micro import MicroSpotter

        return MicroSpotter(wake.keywords, wake.threshold)

    def openwakeword() -> KeywordSpotter:
        from ..engines.openwakeword import OpenWakeWordSpotter

        files = store.files(catalogue.entry("openwakeword"))
        melspectrogram, embedding = str(files.pop("melspectrogram")), str(files.pop("embedding"))
        keywords: dict[str, str] = {}
        for keyword in wake.keywords:
            if keyword.endswith(".onnx"):
                keywords[Path(keyword).stem] = keyword
            elif keyword in files:
                keywords[keyword] = str(files[keyword])
            else:
                raise NotFound(
                    f"openwakeword has no wake word {keyword!r}: choose {', '.join(files)}, or the path of an .onnx."
                )
        return OpenWakeWordSpotter(melspectrogram, embedding, keywords, wake.threshold or 0.5)

    return micro if wake.engine == "micro" else openwakeword


def endpointer_factory(settings: Settings) -> Callable[[], Endpointer]:
    """What makes an endpointer for a sentence. The detector is loaded once and reset for each."""
    from ..engines.silero import SileroDetector

    detector = SileroDetector()
    listen = settings.listen

    def make() -> Endpointer:
        return Endpointer(
            detector,
            start_s=listen.start_s,
            silence_s=listen.silence_s,
            max_s=listen.max_s,
            threshold=listen.threshold,
        )

    return make
