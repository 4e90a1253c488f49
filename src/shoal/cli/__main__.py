"""``python -m shoal.cli``: the `shoal` command of this very interpreter."""

from shoal.cli.main import run

run()
