"""The command line: which words and options there are, and what is said to those that are not."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from scrapy.cmdline import ScrapyArgumentParser
from scrapy.utils.misc import walk_modules_iter
from scrapy.utils.project import get_project_settings

from tests.commands.conftest import Tileharvest
from tests.viewer.building import BLUE, FIRST, RED, World, picture
from tileharvest.__main__ import main
from tileharvest.tiles.grid import Tile

COMMANDS = {
    module.__name__.rpartition(".")[2]: module.Command
    for module in walk_modules_iter("tileharvest.commands")
    if hasattr(module, "Command") and hasattr(module.Command, "examples")
}


@pytest.mark.parametrize("words", [[], ["help"]])
def test_alone_it_lists_its_commands(tileharvest: Tileharvest, words: list[str]) -> None:
    done = tileharvest(*words)
    assert done.returncode == 0
    assert "  harvest      Harvest maps, and show progress and outcomes\n" in done.stdout
    assert "\\n" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["harvst"], "there is no command 'harvst'; did you mean 'harvest'?"),
        (["harvest"], "write tileharvest harvest NAME... | --all"),
        (["film", "a", "--pace", "fast"], "argument --pace: fast cannot be: write 0.05 to 60"),
        (["film", "a", "--zoom"], "argument --zoom: expected one argument"),
        (["add", "a", "http://h/", "--site-zooms", "a,b"], "'a,b' is not a list of numbers with commas"),
        (["add", "a", "http://h/", "--canvas", "0x0"], "a canvas has 1 to 16,777,216 tiles each way"),
        (["add", "a", "http://h/", "--size", "4x4"], "--size needs --around LINK"),
        (["add", "a", "http://h/", "--contact", "me"], "'me' is neither a mail address"),
        (["push", "small", "ftp://127.0.0.1/0.png"], "is not an address: write https://"),
        (["maps", "-s", "RETRY_TIMES=1.5"], "RETRY_TIMES 1.5 cannot be: write a whole number, 0 or more"),
        (["maps", "-s", "PROGRESS_INTERVAL=0"], "PROGRESS_INTERVAL 0 cannot be: write 0.1 or more"),
        (["maps", "-s", "DOWNLOAD_TIMEOUT=-0.5"], "-0.5 cannot be: write 0 or more"),
        (["maps", "-s", "PROMETHEUS_PORT=65536"], "65536 cannot be: write a whole number, 0 to 65535"),
        (["maps", "-s", "LOG_ENABLED=maybe"], "maybe cannot be: write True or False"),
        (["maps", "-s", "LOG_FILE=/nowhere/log"], "/nowhere/log cannot be written: "),
        (["maps", "--pidfile", "/nowhere/pid"], "--pidfile cannot be written: "),
        (["maps", "-s", "SCHEDULER=nowhere"], "SCHEDULER nowhere cannot be loaded: "),
        (["maps", "-s", "SEGMENT_RESOLVER=json.Nothing"], "json.Nothing cannot be loaded: Module 'json'"),
        (["maps", "-s", "SPIDER_MODULES=nowhere"], "nowhere cannot be loaded: No module named 'nowhere'"),
        (["maps", "-s", 'ADDONS={"no.where": 300}'], "ADDONS no.where cannot be loaded: No module named"),
        (["maps", "-s", 'DOWNLOAD_HANDLERS={"http": "no.where"}'], "no.where cannot be loaded: No module"),
        (["run", "-s", "FORCE_CRAWLER_PROCESS=True"], "True cannot be: take it out, or write False"),
        (["harvest", "small", "-s", "DATABASE_URL=nowhere"], "the history's address names no database"),
        (["maps", "-s", "SCHEDULER_QUEUE=rabbit"], "SCHEDULER_QUEUE 'rabbit' is none of: memory, sqlite"),
        (["harvest", "small", "-L", "foo"], "LOG_LEVEL 'foo' cannot be: write one of CRITICAL"),
        (["areas", "a", "--layer", "day"], "--layer is for an area that is added"),
        (["add", "small", "http://h/"], "has a map 'small' already"),
        (["harvest", "small", "--jsn"], "option --jsn is not known; did you mean '--json'?"),
        (["harvest", "small", "-a", "dri=1"], "'dri' is not known; did you mean 'dry'?"),
        (["harvest", "small", "-a", "map=other"], "write tileharvest harvest other"),
        (["harvest", "small", "--at-once", "0"], "argument --at-once: 0 cannot be: write a whole number, 1"),
        (["run", "smal"], "has no map 'smal'; did you mean 'small'?"),
        (["run", "-s", "SEGMENT=run"], "map 'small' is never due"),
        (["crawl", "overviewer"], "which map? say -a map=NAME"),
        (["crawl", "overviewer", "-a", "map=small", "-s", "HOST_DOWN_AFTER=0"], "HOST_DOWN_AFTER"),
        (["crawl", "overviwer", "-a", "map=small"], "no spider 'overviwer'; did you mean 'overviewer'?"),
        (["push", "small", "-3_8_8", "--prioriti=3"], "did you mean '--priority'?"),
        (
            ["import", "foldr", "backup", "small"],
            "nothing can be imported from 'foldr'; did you mean 'folder'",
        ),
        (["import", "folder", "backup", "small"], "which day's state does the folder have? add --day"),
        (["import", "folder", "backup", "small", "--day", "9999-01-01"], "has not begun: today is"),
        (["import", "git", "repo", "small", "--day", "2024-05-01"], "--day is for tileharvest import folder"),
        (["import", "git", "/nowhere", "small"], "/nowhere is neither a folder nor an address such as"),
        (["failures", "small", "--retry", "--clear"], "leave one of them out"),
        (["rate", "small", "fast"], "or default for its own"),
        (["version", "x"], "write tileharvest version [-v]"),
        (["workers"], "no Redis is named: set REDIS_URL"),
        (["check-store", "--clean", "small"], "leave the name out; nothing was done"),
    ],
)
def test_what_cannot_be_is_one_line_before_anything_is_touched(
    tileharvest: Tileharvest, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "maps.toml").write_text('[small]\nurl = "http://h/"\n')
    done = tileharvest(*words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("word", COMMANDS)
def test_help_has_two_examples_that_can_be_typed_and_scrapys_options_last(word: str) -> None:
    command = COMMANDS[word]()
    command.settings = get_project_settings()
    parser = ScrapyArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    shown = parser.format_help()
    assert shown.startswith(f"usage: tileharvest {word} [options]")
    own, _, scrapys = shown.partition("\nScrapy's options:\n")
    assert "--logfile" not in own
    assert all(f"{option} " in scrapys for option in ("--logfile", "-s"))
    assert len(command.examples) == 2
    for example in command.examples:
        assert f"  tileharvest {word} {example}".rstrip() in own
        opts, args = parser.parse_known_args(shlex.split(example))
        command._refuse_unknown_options(args)
        command._read(args, opts)


def test_a_delay_may_be_two_numbers_on_the_command_line(tileharvest: Tileharvest, tmp_path: Path) -> None:
    (tmp_path / "maps.toml").write_text('[small]\nurl = "http://h/"\n')
    assert tileharvest("maps", "-s", "DELAY=[0.2, 0.8]").returncode == 0


@pytest.mark.parametrize("words", [["version"], ["--version"], ["version", "-v"]])
def test_the_version_is_that_of_tileharvest(tileharvest: Tileharvest, words: list[str]) -> None:
    done = tileharvest(*words)
    assert done.returncode == 0
    assert done.stdout.startswith("TileHarvest 0.1.0\nScrapy ")


def test_several_harvests_a_day_are_said_to_keep_one_version(
    tileharvest: Tileharvest, tmp_path: Path
) -> None:
    (tmp_path / "maps.toml").write_text(
        '[often]\nurl = "http://h/"\nevery = "6h"\n[daily]\nurl = "http://h/"\nevery = "1d"\n'
    )
    (line,) = [line for line in tileharvest("maps").stdout.splitlines() if "one version a day" in line]
    assert line.startswith('often: every = "6h" harvests it several times a day')


def test_images_that_were_replaced_on_their_day_are_not_said_to_be_left_by_a_kill(
    tileharvest: Tileharvest, tmp_path: Path
) -> None:
    world = World(tmp_path)
    for body in (picture(RED), picture(BLUE)):
        world.harvest(FIRST, {Tile(0, 1, 1): body}, finished=False)
    done = tileharvest("check-store")
    assert done.returncode == 0
    assert "1 image that no version names" in done.stdout
    assert "a second harvest of the same day leaves those that it has replaced" in done.stdout


def test_a_viewer_without_any_map_says_how_to_add_one(
    tileharvest: Tileharvest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileharvest.commands.serve.configure_logging", lambda settings: None)
    done = tileharvest("serve", "--host", "192.0.2.1")
    assert f"there is no {tmp_path / 'maps.toml'} yet: `tileharvest add NAME URL` writes one" in done.stderr


def test_ctrl_c_while_the_program_is_loaded_is_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileharvest.commands.program.main", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(SystemExit, match=r"^stopped$"):
        main()


def test_settings_that_cannot_be_loaded_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "nowhere")
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err.startswith("error: the settings nowhere cannot be loaded: No module")


def test_without_what_maps_need_a_line_says_what_to_install() -> None:
    code = "import sys; sys.modules['chompjs'] = None; from tileharvest.commands.program import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "queue"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "error: chompjs is not installed: the commands need TileHarvest with its extra `maps`\n"
    )


@pytest.mark.parametrize("words", [["harvest", "--help"], ["maps"]])
def test_a_command_whose_reader_has_seen_enough_ends_without_a_word(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "maps.toml").write_text('[small]\nurl = "http://h/"\n')
    reading, writing = os.pipe()
    os.close(reading)
    # Unbuffered, so that a line fails in the middle.
    command = [sys.executable, "-u", "-m", "tileharvest", *words]
    places = {"TILEHARVEST_MAPS": str(tmp_path / "maps.toml"), "TILEHARVEST_DATA": str(tmp_path)}
    environment = os.environ | places
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writing)
    assert done.stderr == b""


def test_a_full_disk_below_the_output_is_one_line() -> None:
    command = [sys.executable, "-m", "tileharvest", "version"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr == "error: disk full: the output could not be written whole; free space, and run again\n"
    )
