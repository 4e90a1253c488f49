"""What `shoal serve` is told beside the settings of the processes that it starts."""

from __future__ import annotations

from typing import Annotated

from shoal.settings.common import CommonSettings, doc


class ServeSettings(CommonSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`shoal serve`: how many gateways; it takes the settings of gateway and worker too."""

    gateways: Annotated[int, doc("Gateway processes; more than one share the port.", ge=1)] = 1
