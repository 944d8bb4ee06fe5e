"""`tileharvest add NAME URL`: probe a site and write its entry into maps.toml."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from typing import Final

from tileharvest.commands.project_command import Answer, ProjectCommand, ask_site, switch, value
from tileharvest.commands.terminal import say, write_error
from tileharvest.errors import ConfigurationError, ExitStatus, SiteError, program
from tileharvest.maps.maps_file import add_map, checked_entry
from tileharvest.maps.settings import maps_file, setting
from tileharvest.politeness.settings import rules_for
from tileharvest.renderers.registry import renderer_named
from tileharvest.renderers.site import ForbiddenError, Site, UnrecognisedError

_CONTACT: Final = re.compile(r"[^\s@()]+@[^\s@()]+|https?://[^\s()]+", re.ASCII)
"""A mail address or a web page. Parentheses would end the comment in the User-Agent."""
_EXAMPLE: Final = "you@example.net"


def _numbers(text: str) -> list[float]:
    """Returns the numbers between the commas. Raises ArgumentTypeError, whose text argparse shows."""
    try:
        return [int(one) if one.isdecimal() else float(one) for one in text.split(",")]
    except ValueError:
        raise ArgumentTypeError(f"'{text}' is not a list of numbers with commas between them") from None


def _size(text: str) -> list[int]:
    """Returns columns and rows of a text such as `40x30`. Raises ArgumentTypeError."""
    found = re.fullmatch(r"(\d+)x(\d+)", text, re.ASCII)
    if found is None:
        raise ArgumentTypeError(f"'{text}' is not a size in tiles, such as 40x30")
    return [int(found[1]), int(found[2])]


class Command(ProjectCommand):
    arguments = "NAME URL"
    summary = "Probe a map's site and add it to maps.toml under a name of yours"
    examples = (
        "my-server https://map.example.net/",
        "city https://tiles.example.net/{z}/{x}/{y}.png --site-zooms 0,9",
    )
    requires_crawler_process = True
    log_level = "ERROR"
    options = {
        "--renderer": value("the program that draws the map (default: found out)"),
        "--bounds": value("how far plain tiles reach, in degrees", _numbers, metavar="W,S,E,N"),
        "--site-zooms": value("the zooms of plain tiles, such as 0,9", _numbers, metavar="FIRST,LAST"),
        "--canvas": value("how many tiles a canvas of one zoom has, such as 2048x2048", _size, metavar="WxH"),
        "--around": value("keep a region of plain tiles around the place of a share link", metavar="LINK"),
        "--size": value("the size of that region in tiles, such as 40x30", _size, metavar="WxH"),
        "--layer": value("keep this layer only; may be repeated", action="append"),
        "--permitted": switch("the map's owner has allowed it: obey no robots.txt there (robots = false)"),
        "--contact": value("mail address or web page by which the map's owner reaches you"),
        "--timezone": value("in which a day begins and ends (default: UTC)"),
    }

    def check(self, opts: Namespace) -> None:
        if opts.contact and _CONTACT.fullmatch(opts.contact) is None:
            raise ConfigurationError(
                f"'{opts.contact}' is neither a mail address, such as {_EXAMPLE}, nor a web page; nothing was"
                " added"
            )
        if opts.size and not opts.around:
            raise ConfigurationError("--size needs --around LINK: the place that the region surrounds")
        # A share link names latitude and longitude.
        canvas = opts.canvas and {"tiles": opts.canvas} | ({"earth": True} if opts.around else {})
        entry = {
            "url": opts.url,
            "renderer": opts.renderer and renderer_named(opts.renderer).name,
            "bounds": opts.bounds,
            "site_zooms": opts.site_zooms,
            "canvas": canvas,
            "zones": opts.around and [{"link": opts.around, "size": opts.size or [20, 20]}],
            "robots": False if opts.permitted else None,
            "contact": opts.contact or None,
            "layers": opts.layer,
            "timezone": opts.timezone,
        }
        self._entry = {key: value for key, value in entry.items() if value is not None}
        self._description = checked_entry(maps_file(self.settings), opts.name, self._entry)

    def answer(self, opts: Namespace) -> Answer:
        name, file = opts.name, maps_file(self.settings)
        site, forbidden = self._probed()
        add_map(file, name, {"url": opts.url, "renderer": site.renderer} | self._entry)
        title = renderer_named(site.renderer).title
        lines = [
            f"added map '{name}' to {file}: a map of {title}",
            *(f"  layer {one.name}: depth {one.depth}, {one.image_extension}" for one in site.layers),
            *(f"  {note}" for note in site.notes),
        ]
        for line in site.refused:
            write_error(f"{line}; map '{name}' was added with its other layers")
            self.exitcode = ExitStatus.UNREACHABLE
        if forbidden is not None:
            say(f"until the owner allows it, a harvest ends before its first tile: {forbidden}")
        else:
            harvest = f"{program()} harvest {name} makes it"
            lines.append(f"next: {program()} plan {name} says what a harvest will cost, and {harvest}")
        if opts.contact is None and not setting(self.settings, "CONTACT"):
            say(
                f"next: add contact = \"{_EXAMPLE}\" to map '{name}' in {file}: who finds your address in the"
                " User-Agent can write to you instead of shutting you out"
            )
        layers = [
            {"layer": one.name, "depth": one.depth, "extension": one.image_extension, "world": one.world}
            for one in site.layers
        ]
        found = {"notes": list(site.notes), "refused": list(site.refused), "layers": layers}
        return {"map": name, "renderer": site.renderer, **found, "forbidden": forbidden}, lines

    def _probed(self) -> tuple[Site, str | None]:
        """Returns the site, and what robots.txt forbids of it, in words. Raises TileHarvestError."""
        description, rules = self._description, rules_for(self.settings, self._description)
        try:
            asked = ask_site(self.crawler_process, description=description, rules=rules)
            site = asked.site
        except ForbiddenError as error:
            if error.site is None:
                raise SiteError(f"{error}: {program()} add --permitted does; nothing was added") from None
            return error.site, str(error)
        except UnrecognisedError as error:
            raise SiteError(f"{error}; nothing was added") from None
        if site is None:
            raise SiteError(f"{description.url} was not probed to the end; nothing was added")
        return site, None
