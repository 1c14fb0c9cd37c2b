"""The database schema: SQL written out, forward only, one change a file.

While an upgrade is rolled out, code of the version before runs on the new schema, and may restart
on it. So a change that such code would break on is two, of two releases: *expand*, then *contract*.

- Expand: add tables, columns (nullable, or with a constant default), indexes, and values that a
  CHECK allows. Code of before still works; nothing more is to be said. Code of this release writes
  the new and, as long as code of before reads it, the old; what is there is filled in by the
  migration where that is quick, else by the code, in batches.
- Contract, in a later release, when no code runs any more that needs the old: drop, rename, forbid,
  NOT NULL without a default. Such a migration says `oldest_code = "0031"`: the revision from which
  on code works with it, most often its own or that of its expanding part. It is kept beside the
  revision in alembic_version, and code that does not know it refuses to start, and to migrate.

A migration waits 2 s at most for a lock, as all who need the table meanwhile wait behind it, and is
then begun anew, some times. So each is short: a table of many rows is never rewritten, one file
locks as few tables as it can, and what must be checked for all rows (CHECK, a foreign key) is added
NOT VALID, and validated by a migration of its own, which locks out nobody. An index on a table that
grows is built without locking out writers, outside the transaction, and anew where an attempt
before was cut off:

    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")  # it waits for every transaction that is open
        op.execute("DROP INDEX CONCURRENTLY IF EXISTS traces_channel")
        op.execute("CREATE INDEX CONCURRENTLY traces_channel ON traces (channel_id)")
        op.execute("SET lock_timeout = '2s'")
"""
