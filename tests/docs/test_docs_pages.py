"""The pages in docs/ keep to the tree: links, commands, settings and D-Bus members that they name are there."""

from __future__ import annotations

import argparse
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from famulus.daemon.cli import build_parser
from famulus.daemon.doctor.examine import CHECKS
from famulus.daemon.settings import Settings
from famulus.daemon.settings_reference import renewed

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/*.md"))
XML = [*sorted(ROOT.glob("daemon/bus/*.xml")), *sorted(ROOT.glob("client/*.xml"))]
_CODE = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"(?:^|[;&|] )(?:sudo |\w+=\S+ )*(?:\.venv/bin/)?famulus ([a-z]+)(?: ([a-z]+))?")


def _commands() -> dict[str, set[str]]:
    """Each subcommand of ``famulus`` with its own subcommands."""
    found: dict[str, set[str]] = {}
    for name, parser in _subparsers(build_parser()).items():
        found[name] = set(_subparsers(parser))
    return found


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _code(page: Path) -> Iterator[str]:
    """The lines of its shell blocks, and what stands between backquotes in its sentences."""
    text = page.read_text("utf-8")
    for block in _SHELL.findall(text):
        yield from block.splitlines()
    yield from _SPAN.findall(_CODE.sub("", text))


def _slug(heading: str) -> str:
    """As GitHub names the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().casefold()).replace(" ", "-")


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_there_is_a_page_for_each_topic() -> None:
    topics = "README install settings capabilities bus privacy troubleshooting models measuring"
    assert {page.stem for page in PAGES} >= set(topics.split())


def test_every_page_is_linked_from_the_first(page: Path) -> None:
    linked = set(_LINK.findall((ROOT / "docs/README.md").read_text("utf-8")))
    assert page.name == "README.md" or page.name in {link.partition("#")[0] for link in linked}


def test_relative_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", _CODE.sub("", target.read_text("utf-8")), re.MULTILINE)
            assert anchor in map(_slug, headings), link


def test_every_subcommand_named_exists(page: Path) -> None:
    known = _commands()
    for line in _code(page):
        for name, more in _COMMAND.findall(line):
            assert name in known, line
            assert not known[name] or not more or more in known[name], line


def test_every_settings_key_named_exists(page: Path) -> None:
    sections = {name: set(type(field.default).model_fields) for name, field in Settings.model_fields.items()}
    for span in _SPAN.findall(_CODE.sub("", page.read_text("utf-8"))):
        section, dot, key = span.partition(" =")[0].partition(".")
        if dot and section in sections and re.fullmatch(r"[a-z_]+", key) and key not in ("py", "toml"):
            assert key in sections[section], span
    for line in _code(page):
        for section, key in re.findall(r"FAMULUS_([A-Z]+)__([A-Z_]+)", line):
            assert key.lower() in sections[section.lower()], line


def test_every_toml_sample_is_good(page: Path, tmp_path: Path) -> None:
    from famulus.daemon.settings_files import load_settings

    for block in re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        file = tmp_path / "famulus.toml"
        file.write_text(block, "utf-8")
        load_settings(file, environ={})


def test_every_check_of_the_doctor_is_named_for_a_symptom() -> None:
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    cells = re.findall(r"^\| \[[^|]+\| ([^|]+) \|$", page, re.MULTILINE)
    named = {
        name.partition(" ")[0] + "s" if name.startswith("model ") else name for name in _SPAN.findall(" ".join(cells))
    }
    checks = {check.__name__.replace("_", " ") for check in CHECKS}
    assert named == checks - {"versions", "remote"}  # these two tell, and have no symptom


def test_the_settings_reference_is_fresh() -> None:
    page = (ROOT / "docs/settings.md").read_text("utf-8")
    assert page == renewed(page), "run: python -m famulus.daemon.settings_reference docs/settings.md"


def test_the_results_on_the_page_are_those_of_their_files() -> None:
    spec = importlib.util.spec_from_file_location("docs_results", ROOT / "docs/results.py")
    assert spec is not None
    assert spec.loader is not None
    results = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(results)
    page = (ROOT / "docs/measuring.md").read_text("utf-8")
    for name in re.findall(r"\(\.\./bench/results/(\w+\.json)\)", page):
        assert "\n".join(results.table(ROOT / "bench/results" / name)) in page, "run: python docs/results.py"


@pytest.mark.parametrize("xml", XML, ids=lambda xml: xml.stem)
def test_every_member_of_the_bus_is_on_its_page_with_its_types(xml: Path) -> None:
    page = (ROOT / "docs/bus.md").read_text("utf-8")
    interface = ElementTree.parse(xml).getroot().find("interface")  # noqa: S314 - a file of our own
    assert interface is not None
    section = page.partition(f"## {interface.get('name')}")[2].partition("\n## ")[0]
    assert section, f"docs/bus.md needs a heading for {interface.get('name')}"
    for member in interface:
        name, told = member.get("name"), _signature(member)
        if name is not None:
            assert f"`{told}`" in section, f"docs/bus.md, {interface.get('name')}: `{told}`"


def _signature(member: ElementTree.Element) -> str:
    """``Ask(s text, a{sv} options) → (s reply, a{sv} result)``, as the page writes a member."""
    if member.tag == "property":
        return f"{member.get('name')} {member.get('type')}"
    args = [(arg.get("direction", "in"), f"{arg.get('type')} {arg.get('name')}") for arg in member.iter("arg")]
    given, got = ([text for direction, text in args if direction == side] for side in ("in", "out"))
    result = f" → ({', '.join(got)})" if got else ""
    return f"{member.get('name')}({', '.join(given)}){result}"
