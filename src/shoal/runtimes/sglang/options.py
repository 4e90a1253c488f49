"""What a profile says of its SGLang server: `Load.options`."""

from __future__ import annotations

import os

import msgspec

from shoal.errors import ModelLoadFailed
from shoal.wire.socket import Load


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`Load.options`: exactly one of `command` and `url`.

    Attributes:
        command: starts a server, as ``[python3, -m, sglang.launch_server]``; the model's folder, the
            address and the device are put behind it.
        url: where one runs, ``http://host:30000``.
        serves: what the server calls its model, where that is neither the folder nor the card's name.
        key_env: environment variable with the key that the server asks for.
        start_s: how long it may take until it answers.
        generated_repetition: a repetition penalty counts generated tokens alone, as SGLang does; else
            it is refused.
    """

    command: list[str] | None = None
    url: str | None = None
    serves: str | None = None
    key_env: str | None = None
    start_s: float = 600.0
    generated_repetition: bool = False

    def key(self) -> str | None:
        """The server's key. Raises `ModelLoadFailed` where the variable is not set."""
        if self.key_env is None:
            return None
        if (key := os.environ.get(self.key_env)) is None:
            raise ModelLoadFailed(f"option key_env: the environment has no variable {self.key_env}")
        return key


def options_of(load: Load) -> Options:
    """Raises `ModelLoadFailed` for what no server can be reached by."""
    try:
        options = msgspec.convert(load.options, Options)
    except msgspec.ValidationError as error:
        raise ModelLoadFailed(f"options of the sglang runtime: {error}") from None
    if (not options.command) == (not options.url):
        raise ModelLoadFailed(
            "the sglang runtime needs one of the options command and url in the profile of "
            f"'{load.model}', such as `url: http://127.0.0.1:30000`"
        )
    if options.url is not None and not options.url.startswith(("http://", "https://")):
        raise ModelLoadFailed(
            f"option url must begin with http:// or https://, not '{options.url}'"
        )
    if not options.start_s > 0:
        raise ModelLoadFailed(f"option start_s must be above 0, not {options.start_s}")
    return options
