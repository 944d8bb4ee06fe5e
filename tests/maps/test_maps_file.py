"""The file `maps.toml` is read once, however often it is asked for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tileharvest.maps.maps_file import load_maps, maps_at

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "maps.toml"
    file.write_text('[one]\nurl = "http://one.example.net/"\n')
    first = load_maps(file)["one"]
    assert load_maps(file)["one"] is first
    stamps = file.stat().st_atime_ns, file.stat().st_mtime_ns
    # As long as it was, and with the time that it had.
    file.write_text('[two]\nurl = "http://two.example.net/"\n')
    os.utime(file, ns=stamps)
    assert list(load_maps(file)) == ["two"]


def test_maps_at_one_host_are_found_without_the_others(tmp_path: Path) -> None:
    file = tmp_path / "maps.toml"
    hosts = ("one.example.net", "two.example.net", "ONE.example.net:8080")
    file.write_text("".join(f'[m{place}]\nurl = "http://{host}/"\n' for place, host in enumerate(hosts)))
    assert [described.name for described in maps_at(file, "one.example.net")] == ["m0", "m2"]
    assert maps_at(file, "three.example.net") == []
