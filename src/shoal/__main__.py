"""``python -m shoal``: the `shoal` command of this very interpreter."""

from shoal.cli.main import run

run()
