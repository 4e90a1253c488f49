import pytest

from shoal.errors import ConfigError
from shoal.settings import CommonSettings, GatewaySettings, WorkerSettings, load

NO_NUMBERS = ["", "1_0", " 10 ", "１０", "+5", "0x10", "nan", "inf", "-inf", "1e400", "ten"]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_a_number_is_plain_digits(text: str) -> None:
    for key in ("port", "timeout_s", "drain_s"):
        with pytest.raises(ConfigError, match=f"flags: setting '{key}'"):
            load(GatewaySettings, [("flags", {key: text})])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "true"])
def test_a_number_of_a_file_is_finite_and_no_switch(value: object) -> None:
    for key in ("port", "timeout_s", "drain_s"):
        with pytest.raises(ConfigError, match=f"file: setting '{key}'"):
            load(GatewaySettings, [("file", {key: value})])


def test_numbers_as_people_write_them() -> None:
    settings = load(
        GatewaySettings, [("flags", {"port": "80", "timeout_s": "2.5", "drain_s": "0"})]
    )
    assert (settings.port, settings.timeout_s, settings.drain_s) == (80, 2.5, 0.0)


def test_a_later_layer_wins_and_none_is_no_value() -> None:
    weaker, stronger = {"pool": "a", "threads": 3}, {"pool": "b", "threads": None}
    worker = load(WorkerSettings, [("file", weaker), ("flags", stronger)])
    assert (worker.pool, worker.threads) == ("b", 3)


def test_a_key_of_another_process_is_ignored_and_one_of_none_refused() -> None:
    assert load(CommonSettings, [("file", {"port": "no number"})]) == CommonSettings()
    with pytest.raises(ConfigError, match=r"file: unknown setting 'prot'.*'port'"):
        load(CommonSettings, [("file", {"prot": 1})])
