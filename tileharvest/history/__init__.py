"""The history: which version of each tile was there on which day, and what each harvest found.

`schema` says what the tables mean, `database` opens them, and a `HarvestRecord` of `harvests` writes them.
`outlines`, `recorded_versions`, `changes` and `summaries` read them. With `group_commit` and `known` an
asyncio program uses a harvest without waiting for the disk per tile.
"""
