"""The walk: which tiles a harvest asks for. Pure.

A full walk asks for every tile below a tile that exists. A pruned walk leaves out the tiles below an
unchanged one. It rests on a law: whenever something below a tile changes, the tile changes too, and it is not
older than the tiles below it. Some hosts break the law: they re-date every file with each upload, or keep a
parent whose bytes happen to be the same. Therefore the law is

- proved from the times in the history before it is used (`proof`),
- used only below tiles that are trusted (`Walk.steps`),
- checked by asking some of the skipped tiles (`Audit`),
- and put aside for a full walk every few days (`decision`).
"""
