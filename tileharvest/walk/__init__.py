"""The walk: which tiles a harvest asks for. Pure.

`Walk` answers all questions about one layer. `Decisions` says how the layers of a map are walked. A full walk
asks for every tile below a tile that exists. A pruned walk leaves out the tiles below an unchanged one. It
rests on a law: whenever something below a tile changes, the tile changes too, and it is not older than the
tiles below it. Overviewer draws every tile above a changed one anew and gives it the time of its newest child
(`_render_compositetile` in its tileset.py). Mapcrafter writes parents after their children. So on a host that
keeps these times, an unchanged parent proves that nothing below it has changed.

Some hosts break the law. They re-date every file with each upload, or keep a parent whose bytes happen to be
the same. Overviewer's `--check-tiles` removes tiles without touching those above (`_nuke_path`). Therefore
the law is

- proved from the times in the history before it is used (`proof`),
- used only below tiles that are trusted (`RememberedValidator`),
- checked by asking some of the skipped tiles (`Audit`),
- and put aside for a full walk every few days (`decision`).
"""
