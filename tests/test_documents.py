"""What the README and the pages of docs/ say of the program, and their links."""

import re
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final

import pytest
from scrapy.settings import Settings

from tileharvest import commands
from tileharvest.errors import ExitStatus
from tileharvest.maps.description import EXAMPLES

ROOT: Final = Path(__file__).resolve().parents[1]
REFERENCE: Final = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
PAGES: Final = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
WORDS: Final = {
    module.name
    for module in iter_modules(commands.__path__)
    if hasattr(import_module(f"tileharvest.commands.{module.name}"), "Command")
}
"""The commands of the program."""
FOLDERS: Final = r"(?:tests|tileharvest|tools|bench|container|examples)"


def first_column(title: str) -> str:
    """Of the table in this section of the reference."""
    section = re.split(r"^## ", REFERENCE, flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(f"{title}\n"))
    return "\n".join(re.findall(r"^\| (`(?:[^|]|\\\|)*`) \|", text, re.MULTILINE))


def test_the_readme_is_read_in_five_minutes() -> None:
    assert (ROOT / "README.md").stat().st_size <= 8_000


def test_the_reference_has_each_command_key_exit_status_and_dependency() -> None:
    assert set(re.findall(r"`([a-z-]+)", first_column("Commands"))) == WORDS
    assert set(re.findall(r"`(\w+)`", first_column("maps.toml"))) == set(EXAMPLES)
    assert re.findall(r"^\| (\d) \|", REFERENCE, re.MULTILINE) == [f"{one:d}" for one in sorted(ExitStatus)]
    required = re.findall(r"^([\w-]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert re.findall(r"`([\w-]+)`", first_column("Dependencies")) == required


def options_of(word: str) -> set[str]:
    """The options of a command, Scrapy's own among them."""
    command = import_module(f"tileharvest.commands.{word}").Command()
    command.settings = Settings()
    parser = ArgumentParser()
    command.add_options(parser)
    return {option for action in parser._actions for option in action.option_strings}


@pytest.mark.parametrize("word", sorted(WORDS))
def test_the_pages_name_options_that_the_command_has(word: str) -> None:
    # The changelog has what is gone, and a decision may propose what is not there yet.
    pages = [page for page in PAGES if page.parent.name != "decisions" and page.name != "CHANGELOG.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    used = re.findall(rf"tileharvest {word}\b(?! \|)([^`\n|&;#(,]*)", text)
    named = {option for words in used for option in re.findall(r"(?<![\w-])--[a-z-]+", words)}
    assert named <= options_of(word)


def test_the_reference_has_the_commands_without_json_and_the_options_of_a_harvest() -> None:
    (words,) = re.findall(r"^All commands but (.*) take `--json`", REFERENCE, re.MULTILINE)
    without = {word for word in WORDS if "--json" not in options_of(word)}
    assert set(re.findall(r"`([a-z-]+)`", words)) == without
    assert set(re.findall(r"`(--[a-z]+)", first_column("One harvest"))) <= options_of("harvest")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_the_files_that_the_pages_name_are_there() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(rf"`({FOLDERS}/[\w/.*-]+)`", text))
    assert [path for path in named if not list(ROOT.glob(path))] == []


def test_the_website_and_the_list_of_decisions_have_every_page() -> None:
    """`make docs` fails for a page that is not there."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/-]+\.md", text.partition("nav:")[2]))
    assert named == {page.name for page in (ROOT / "docs").glob("*.md")} | {"decisions/index.md"}
    listed = (ROOT / "docs/decisions/index.md").read_text(encoding="utf-8")
    there = {page.name for page in (ROOT / "docs/decisions").glob("0*.md")}
    assert set(re.findall(r"\((0[\w-]+\.md)\)", listed)) == there
