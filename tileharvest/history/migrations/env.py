"""Alembic's entry: runs the revisions on the connection that the program hands over.

The connection comes with its transaction begun, so that an upgrade happens entirely or not at all.
There is no offline mode and no alembic.ini: the program upgrades its history itself when it opens it.
"""

from alembic import context

from tileharvest.history.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
