"""The history: which version of each tile was there on which day, and what each harvest found.

`schema` says what the tables mean. `database` opens them. `harvests` begins a harvest, which looks up blocks
of tiles and records what it has found there (`blocks`). `results` and `trust` say what a harvest has asked
and skipped. `outlines`, `recorded_versions`, `changes` and `summaries` read all of it. Whatever reads or
writes a history raises HistoryError.
"""
