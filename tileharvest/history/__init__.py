"""The history: which version of each tile was there on which day, and what each harvest found.

`schema` says what the tables mean, `database` opens them, `harvests` writes, `reading` reads for the
commands. `group_commit` and `known` let an asyncio program use both without waiting for a disk per tile.
"""
