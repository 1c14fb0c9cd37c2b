"""Git repositories for tests."""

import subprocess
from pathlib import Path


class Repository:
    """A repository on this machine, to which files are committed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=Ann", "-c", "user.email=ann@acme.example")
        command = ["git", "-C", str(self.root), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, **files: str) -> str:
        """Commit these files, by name without .md; the commit."""
        for name, text in files.items():
            (self.root / f"{name}.md").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Pages")
        return self.git("rev-parse", "HEAD")
