"""The walk: which tiles a harvest asks for. Pure.

`Walk` answers all questions about one layer; `Decisions` says how a map's layers are walked. A full walk asks
for every tile that has something above it. A pruned one rests on a law: whenever something below a tile
changes, the tile changes too, and is not older than what lies below it. Overviewer draws every tile above a
changed one anew and gives it the time of its newest child (`_render_compositetile` in its tileset.py);
Mapcrafter writes parents after their children. So on a host that keeps these times an unchanged parent proves
that nothing below it has changed.

The law gets broken. Some hosts re-date every file with each upload. Others keep a parent whose bytes happen
to be the same. Overviewer's `--check-tiles` removes tiles without touching those above (`_nuke_path`). So the
law is proved from what the history knows (`proof`), followed only below tiles that are trusted (`trust`),
checked by asking some of what was spared (`audit`), and never relied on for long (`decision`).
"""
