from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from famulus.daemon.cli import main
from famulus.engines.kinds import ENGINES
from famulus.models.catalogue import Catalogue, ModelEntry

Run = Callable[..., int]
TINY = Path(__file__).parents[1] / "data/models/tiny-plain.gguf"


def run(*words: str) -> int:
    return main(["models", *words])


@pytest.fixture
def famulus(served: Callable[..., ModelEntry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command over a catalogue of one served default model and one that lies in an installed package."""
    toy = served(model=b"abc").model_copy(update={"default": True, "licence_note": "Only for play."})
    catalogue = Catalogue(models=(toy, Catalogue.load().entry("micro")))
    monkeypatch.setattr(Catalogue, "load", classmethod(lambda cls, path=None: catalogue))
    return lambda *words: run(*words, "--root", str(tmp_path / "models"))


def test_list_shows_state_licence_and_folder(famulus: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert famulus("list") == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].split() == ["ID", "FOR", "STATE", "SIZE", "LICENCE", "WHAT"]
    assert lines[1].split()[:6] == ["toy", "llm", "missing", "3", "B", "MIT*"]
    assert lines[2].split()[:5] == ["micro", "wake", "present", "-", "Apache-2.0"]
    assert "* toy: Only for play." in lines
    assert lines[-1] == f"Folder: {tmp_path / 'models'}"


def test_list_as_json_holds_every_fact(famulus: Run, capsys: pytest.CaptureFixture[str]) -> None:
    famulus("pull")
    capsys.readouterr()
    assert famulus("list", "--json") == 0
    toy, micro = json.loads(capsys.readouterr().out)["models"]
    assert (toy["id"], toy["state"], toy["size"], toy["default"], toy["source"]) == ("toy", "present", 3, True, "url")
    assert (micro["id"], micro["state"], micro["licence"]) == ("micro", "present", "Apache-2.0")


def test_pull_without_ids_fetches_the_defaults_and_tells_their_terms(
    famulus: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert famulus("pull") == 0
    told = capsys.readouterr()
    assert told.out == f"toy: fetched 3 B, in {tmp_path / 'models/toy'}\n"
    assert "toy: Only for play." in told.err
    assert famulus("pull") == 0
    again = capsys.readouterr()
    assert again.out.startswith("toy: already here")
    assert again.err == ""


def test_pull_as_json_keeps_progress_off_stdout(famulus: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert famulus("pull", "toy", "micro", "--json") == 0
    models = json.loads(capsys.readouterr().out)["models"]
    assert [(model["id"], model["fetched"]) for model in models] == [("toy", True), ("micro", False)]


def test_verify_names_the_damaged_file_and_fails(
    famulus: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    famulus("pull")
    assert famulus("verify") == 0
    (tmp_path / "models/toy/model.bin").write_bytes(b"abd")
    capsys.readouterr()
    assert famulus("verify", "toy") == 1
    assert capsys.readouterr().out == "toy: model damaged; run: famulus models pull toy\n"
    assert famulus("verify", "--json") == 1
    models = json.loads(capsys.readouterr().out)["models"]
    assert models["toy"] == {"whole": False, "files": {"model": "damaged"}}
    assert models["micro"] == {"whole": True, "files": {}}


def test_path_prints_one_line_for_scripts(famulus: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    famulus("pull")
    capsys.readouterr()
    assert famulus("path", "toy") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'models/toy'}\n"
    assert famulus("path", "toy", "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == {"model": str(tmp_path / "models/toy/model.bin")}


def test_the_folder_is_the_one_of_the_settings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAMULUS_STORAGE__MODELS", str(tmp_path / "configured"))
    assert run("list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["root"] == str(tmp_path / "configured")


def test_errors_are_one_sentence_on_stderr(famulus: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert famulus("path", "toy") == 1
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "famulus: The model toy is missing; run: famulus models pull toy\n")


def test_errors_as_json_carry_the_code(famulus: Run, capsys: pytest.CaptureFixture[str], web: Any) -> None:
    web.status = 503
    assert famulus("pull", "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "model_unavailable"
    assert famulus("pull", "tiy", "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not_found"


@pytest.mark.parametrize("words", [["--help"], ["pull", "--help"], ["verify", "--help"], ["recommend", "--help"]])
def test_help_helps(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 0
    assert "famulus models" in capsys.readouterr().out


def test_the_parser_costs_other_commands_nothing() -> None:
    code = "import sys, famulus.daemon.cli.models; print('pydantic' in sys.modules, 'famulus.models' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "False False\n"


def test_what_this_version_cannot_load_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("list", "--root", str(tmp_path)) == 0
    told = capsys.readouterr().out
    assert "4-bit for MNN (not supported by this version)" in told or "mnn" in ENGINES
    assert "Qwen3.5 2B, 4-bit GGUF (Q4_0)\n" in told
    assert "~563.0 MB" in told
    assert "~ qwen3.5-0.8b: nobody told its hash yet; the first pull pins what it gets." in told


def test_a_hash_that_nobody_told_is_announced_pinned_and_shown(
    served: Callable[..., ModelEntry],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    catalogue = Catalogue(models=(served(hashes=False, model=b"abc"),))
    monkeypatch.setattr(Catalogue, "load", classmethod(lambda cls, path=None: catalogue))
    root = ("--root", str(tmp_path))
    assert run("list", *root) == 0
    assert "~3 B" in capsys.readouterr().out
    assert run("pull", "toy", *root) == 0
    told = capsys.readouterr().err
    assert "toy: nobody told its hash yet; what comes now is pinned." in told
    assert "toy: this version of famulus cannot load it" in told
    assert run("list", *root) == 0
    assert "toy: held to the hash that was pinned at the first pull." in capsys.readouterr().out
    assert run("list", "--json", *root) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert (model["hashes"], model["supported"]) == ("pinned", False)
    (tmp_path / "toy/model.bin").unlink()
    assert run("pull", "toy", "--repin", "--json", *root) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["fetched"] is True


def test_the_mirror_of_the_settings_is_asked(
    famulus: Run, web: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    web.bodies["hub/model.bin"] = web.bodies.pop("model.bin")
    monkeypatch.setenv("FAMULUS_MODELS__MIRROR", f"{web.url}/hub")
    assert famulus("pull") == 0
    assert web.requests == ["/hub/model.bin"]


def test_an_own_file_of_the_settings_is_listed(
    famulus: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "My model.gguf"
    path.write_bytes(b"abcd")
    monkeypatch.setenv("FAMULUS_LLM__MODEL", str(path))
    assert famulus("list") == 0
    line = capsys.readouterr().out.splitlines()[3]
    assert line.split()[:5] == ["My-model", "llm", "present", "4", "B"]
    assert line.endswith(f"own file {path}")
    assert famulus("list", "--json") == 0
    own = json.loads(capsys.readouterr().out)["models"][-1]
    assert (own["id"], own["source"], own["state"]) == (str(path), "own file", "present")


def test_recommend_tells_this_board_and_lines_to_paste(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("recommend", "--root", str(tmp_path)) == 0
    told = capsys.readouterr().out
    assert told.startswith("This board: ")
    assert "For famulus.toml:" in told
    assert run("recommend", "--json", "--root", str(tmp_path)) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["board"]["cores"] >= 1
    assert facts["settings"]["memory"]["budget_mb"] == facts["budget"] // 10**6


def test_optimise_makes_a_model_that_the_other_commands_know(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = ("--root", str(tmp_path / "models"))
    monkeypatch.chdir(TINY.parent)
    assert run("optimise", TINY.name, "--threads", "1", *root) == 0
    told = capsys.readouterr()
    assert told.out.startswith("tiny-plain-q4_0: ")
    assert '[llm]\nmodel = "tiny-plain-q4_0"' in told.out
    assert run("optimise", str(TINY), "--json", *root) == 0
    assert json.loads(capsys.readouterr().out)["made"] is False
    assert run("verify", "tiny-plain-q4_0", *root) == 0
    assert run("list", *root) == 0
    assert "made Q4_0 here from F32" in capsys.readouterr().out
    (tmp_path / "models/tiny-plain-q4_0/tiny-plain.Q4_0.gguf").unlink()
    assert run("path", "tiny-plain-q4_0", *root) == 1
    assert f"run: famulus models optimise {TINY}" in capsys.readouterr().err


def somebody_else(*command: str) -> list[str]:
    return ["setpriv", "--reuid", "65534", "--clear-groups", *command]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("command", ["list", "verify", "pull", "path"])
def test_a_folder_that_may_not_be_read_is_told_in_a_sentence(tmp_path: Path, command: str) -> None:
    if subprocess.run(somebody_else("test", "-x", sys.executable), check=False).returncode:
        pytest.skip("this checkout lies where nobody else may read")
    (tmp_path / "closed").mkdir(mode=0o700)
    program = "import sys; from famulus.daemon.cli import main; sys.exit(main())"
    words = ["models", command, *([] if command == "list" else ["smollm2-135m"]), "--root", str(tmp_path / "closed")]
    done = subprocess.run(
        somebody_else(sys.executable, "-c", program, *words),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "HOME": "/nonexistent"},
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("famulus: ") and len(done.stderr.splitlines()) == 1
