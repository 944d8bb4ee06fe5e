"""The history: which version of each tile was there on which day, and what each harvest found.

`schema` says what the tables mean. `database` opens them. A `HarvestRecord` of `harvests` writes them.
`outlines`, `recorded_versions`, `changes` and `summaries` read them. `group_commit` and `known` let an
asyncio program record and look up tiles in batches, so that no tile waits for the disk by itself.
"""
