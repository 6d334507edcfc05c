"""Alembic's entry: runs the migrations on the connection that ``taskkit db upgrade`` hands over."""

from alembic import context

VERSION_TABLE = "task_schema"

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=None, version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
