"""A git repository to a folder with its files, as they are now.

By the git command, and not a library: it knows the credential helpers, keys, proxies and protocols
that a company has set up, fetches only what is new, and is mended faster than any copy of it.
Nothing of a repository is run: no hook, no submodule, no protocol that is a command.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path, PurePosixPath

from retrieval import git_environment
from retrieval.errors import ConfigError
from retrieval.sources.addresses import hide_credentials
from retrieval.sources.catalog import Source

TIMEOUT_S = 3600  # for one command; a first clone may be large. Chosen
SLOW_S = 60  # with less than a kilobyte a second for so long, git gives up
NO_MATCH = 2  # the exit status of ls-remote where the branch is missing
EVERYTHING = 2**31 - 1  # the depth by which git means all of the history
SUBMODULE = "160000"  # the mode of what stands for another repository

_PROTOCOLS = ("file", "git", "http", "https", "ssh")
_CONFIG = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.logAllRefUpdates": "false",  # or gc would keep what was there before
    "credential.interactive": "false",
    "fetch.recurseSubmodules": "false",
    "gc.autoDetach": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": str(SLOW_S),
    "protocol.allow": "never",
    **{f"protocol.{name}.allow": "always" for name in _PROTOCOLS},
    "submodule.recurse": "false",
}


def refresh(source: Source, folder: Path) -> str:
    """Have the folder hold the files of the source's branch; the commit that they are of.

    Raises ConfigError, and leaves the folder as it was, when git, the repository or the branch is
    not to be had.
    """
    _check_remote(source)
    try:
        return _fill(source, folder)
    except subprocess.TimeoutExpired:
        raise _silent(source) from None
    except (OSError, subprocess.CalledProcessError):
        _check_remote(source)  # or it was the network
        # A lock that somebody killed left behind, a broken file: a new one takes its place.
        return _renew(source, folder)


def find_folder(checkouts: Path, tenant_id: str, name: str) -> Path:
    """Where the checkout of a source is, below the folder of all."""
    key = hashlib.sha256("\0".join((tenant_id, name)).encode()).hexdigest()
    return checkouts / key[:16]


def find_submodules(root: Path, folder: str) -> list[str]:
    """Paths below a folder of a checkout where another repository would be, which is not there."""
    options = ("--literal-pathspecs", "ls-files", "--stage", "-z")
    entries = _git(*_here(root), *options, "--", folder or ".").split("\0")
    paths = [entry.split("\t", 1)[1] for entry in entries if entry.startswith(SUBMODULE)]
    return [str(PurePosixPath(path).relative_to(folder)) for path in paths]


def remove(folder: Path) -> None:
    """Delete a checkout, and what a killed process may have left of another."""
    for each in (folder, _next_to(folder)):
        _remove(each)


def _check_remote(source: Source) -> None:
    """Raise ConfigError unless the repository answers and has the branch."""
    assert source.git is not None
    shown = hide_credentials(source.git)
    try:
        _git("ls-remote", "--exit-code", "--", source.git, _ref(source))
    except FileNotFoundError as error:
        raise ConfigError("git is not installed, and a source is a repository.") from error
    except subprocess.CalledProcessError as error:
        if error.returncode == NO_MATCH:
            raise ConfigError(
                f"{shown} has no branch {source.branch!r}. Name one that is there in `branch`."
                if source.branch
                else f"{shown} has no commit yet. Name a branch that has one in `branch`."
            ) from None
        raise ConfigError(
            f"{shown} cannot be read. Check that it can be reached, and that the user Footnote "
            "runs as may read it without being asked for a password: `git ls-remote` tells why."
        ) from None
    except subprocess.TimeoutExpired:
        raise _silent(source) from None


def _silent(source: Source) -> ConfigError:
    assert source.git is not None
    return ConfigError(
        f"{hide_credentials(source.git)} does not answer. Check the network, and try again."
    )


def _fill(source: Source, folder: Path) -> str:
    assert source.git is not None
    folder.mkdir(parents=True, exist_ok=True)
    # Its address, which may hold a password, is given each time, and stays nowhere.
    _git("init", "--quiet", "--template=", "--", str(folder))
    depth = EVERYTHING if source.dates == "git" else 1
    options = ("--quiet", "--no-tags", "--force", "--update-shallow", f"--depth={depth}")
    here = _here(folder)
    _git(*here, "fetch", *options, "--", source.git, _ref(source))
    _git(*here, "reset", "--quiet", "--hard", "FETCH_HEAD")
    _git(*here, "clean", "--quiet", "-ffdx")
    return _git(*here, "rev-parse", "HEAD").strip()


def _here(folder: Path) -> tuple[str, ...]:
    """Said aloud: where its own is broken, git would take the next one above for it."""
    return ("-C", str(folder), "--git-dir=.git", "--work-tree=.")


def _renew(source: Source, folder: Path) -> str:
    new = _next_to(folder)
    try:
        _remove(new)
        revision = _fill(source, new)
        _remove(folder)
        new.rename(folder)
    except (OSError, subprocess.SubprocessError):
        assert source.git is not None
        raise ConfigError(
            f"{hide_credentials(source.git)} cannot be fetched into {folder.parent}. Check that "
            "there is room, and that Footnote may write there."
        ) from None
    return revision


def _next_to(folder: Path) -> Path:
    return folder.with_name(folder.name + ".new")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _ref(source: Source) -> str:
    return f"refs/heads/{source.branch}" if source.branch else "HEAD"


def _git(*arguments: str) -> str:
    """What git prints; its errors, which may quote an address, are for nobody."""
    config = [each for name, value in _CONFIG.items() for each in ("-c", f"{name}={value}")]
    ran = subprocess.run(
        ["git", *config, *arguments],
        check=True,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # no terminal on which to ask for a password
        timeout=TIMEOUT_S,
        env={"GIT_TERMINAL_PROMPT": "0", **git_environment.build()},
    )
    return ran.stdout
