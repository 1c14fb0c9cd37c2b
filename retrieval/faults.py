"""What of the database's faults passes by itself, so that trying again later helps."""

from psycopg import Error, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

# Codes of PostgreSQL's errors (its manual, appendix A).
DEADLOCK, LOCKED, READ_ONLY = "40P01", "55P03", "25006"
_PASSING = {
    *(DEADLOCK, "40001", LOCKED),  # others need the same
    READ_ONLY,  # the old primary, after a failover, or a standby that is not yet the new one
    *("57P01", "57P02", "57P03"),  # it stops, has crashed, starts
    *("53000", "53100", "53200", "53300"),  # out of resources: disk, memory, connections
    *("57014", "25P03"),  # it took too long, or we did between two statements
}
_LOST = "08"  # the class of what befalls connections


def find(error: BaseException) -> Error | PoolTimeout | None:
    """The error of the database, or of waiting for a connection, that this one is or stems from."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Error | PoolTimeout):
            return cause
        cause = cause.__cause__
    return None


def find_code(error: BaseException) -> str | None:
    """PostgreSQL's code of an error; None where the server did not say, or is not at fault."""
    found = find(error)
    return found.sqlstate if isinstance(found, Error) else None


def is_passing(error: BaseException) -> bool:
    """Whether an error is, or stems from, one of the database that passes by itself.

    So is every failure to connect: libpq gives those no code, and a login that is refused can be
    told from a server that starts by the text alone, which is in the server's language.
    """
    found = find(error)
    if not isinstance(found, Error):
        return found is not None
    if found.sqlstate is None:
        return isinstance(found, OperationalError)
    return found.sqlstate in _PASSING or found.sqlstate.startswith(_LOST)
