"""One settings struct per process. `docs/settings.md` is generated from their descriptions."""

from shoal.settings.common import CommonSettings
from shoal.settings.gateway import GatewaySettings
from shoal.settings.load import ALL, ENV_PREFIX, from_environment, known_keys, list_text, load
from shoal.settings.serve import ServeSettings
from shoal.settings.worker import RuntimeSettings, WorkerSettings

__all__ = [
    "ALL",
    "ENV_PREFIX",
    "CommonSettings",
    "GatewaySettings",
    "RuntimeSettings",
    "ServeSettings",
    "WorkerSettings",
    "from_environment",
    "known_keys",
    "list_text",
    "load",
]
