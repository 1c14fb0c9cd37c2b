"""`python -m tests.chaos [SCENARIO]`: plays a scenario and says what must not be; `make chaos`."""

import argparse
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from random import SystemRandom

from .figures import print_violations
from .scenarios import SCENARIOS
from .world import World, find_clock_library


def main() -> int:
    """0 unless something was that must not be."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("scenario", nargs="?", default="chaos", choices=SCENARIOS)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000))
    parser.add_argument("--questions", type=int, help="how many, instead of the scenario's own")
    parser.add_argument("--minutes", type=float, help="how long a day takes, instead of 15")
    parser.add_argument("--serve", type=int, help="how many of `footnote serve`")
    parser.add_argument("--workers", type=int, help="how many of `footnote worker`")
    parser.add_argument("--folder", type=Path, help="where logs and database are kept")
    options = parser.parse_args()
    play, scale, settings = SCENARIOS[options.scenario]
    given = {
        name: value
        for name in ("questions", "minutes", "serve", "workers")
        if (value := getattr(options, name)) is not None
    }
    folder = options.folder or Path(tempfile.mkdtemp(prefix="footnote-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"scenario             {options.scenario}, seed {options.seed}, in {folder}")
    moved = "libfaketime" if find_clock_library() else "libfaketime is not installed: no clock is"
    print(f"clock moved by       {moved}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # else processes would be left
    world = World(options.seed, folder, **settings)
    with world.open():
        violations = play(world, replace(scale, **given))
        print_violations(world, violations)
    if world.agenda.errors:
        print("\nThe suite itself failed:", *world.agenda.errors[:5], sep="\n")
    is_good = not violations and not world.agenda.errors
    if is_good and options.folder is None:
        shutil.rmtree(folder)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
