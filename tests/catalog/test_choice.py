"""Which profile a model runs with: the first that suits the device and can run here."""

from collections.abc import Callable

from shoal.catalog.card import Card, Profile, Source
from shoal.catalog.choice import chosen, is_graphed
from shoal.catalog.families import FAMILIES
from shoal.catalog.resolve import Catalog
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import ModelLoadFailed
from shoal.runtimes.onnx.encoders.heads import heads_of as graphed_heads
from shoal.runtimes.onnx.export.architecture import FAMILIES as GRAPHED
from shoal.worker.models import heads_of

CARD = Card(
    "m",
    Source(dir="."),
    "t5",
    Tasks(),
    512,
    profiles={
        "cpu-bf16": Profile("torch", "bfloat16"),
        "cpu": Profile("onnx"),
        "cuda": Profile("torch", "float16"),
    },
)
CPU = ("cpu-bf16", "cpu")


def without(*kinds: str) -> Callable[[str], str | None]:
    return lambda kind: f"install {kind}" if kind in kinds else None


def test_the_first_that_suits() -> None:
    choice = chosen(CARD, CPU, without())
    assert (choice.name, choice.lacks) == ("cpu-bf16", None)
    assert [passed.name for passed in choice.passed] == ["cpu", "default"]


def test_one_whose_packages_are_missing_is_passed_over() -> None:
    choice = chosen(CARD, CPU, without("torch"))
    assert choice.name == "cpu"
    assert [(p.name, p.why) for p in choice.passed] == [
        ("cpu-bf16", "install torch"),
        ("default", "install torch"),
    ]


def test_where_nothing_can_run_the_lightest_says_what_to_install() -> None:
    choice = chosen(CARD, CPU, without("torch", "onnx"))
    assert (choice.name, choice.lacks) == ("cpu", "install onnx")
    assert [passed.name for passed in choice.passed] == ["cpu-bf16", "default"]
    assert chosen(CARD, ("cuda",), without("torch", "onnx")).lacks == "install torch"


def test_no_other_takes_the_place_of_one_that_was_asked_for() -> None:
    choice = chosen(CARD, ("cpu",), without("onnx"), only=True)
    assert (choice.name, choice.lacks) == ("cpu", "install onnx")


def test_a_lighter_runtime_stands_in_for_the_default_one() -> None:
    card = Card(
        "m",
        Source(dir="."),
        "bert",
        Tasks(),
        512,
        profiles={
            "candle": Profile("candle"),
            "onnx": Profile("onnx"),
            "onnx-int8": Profile("onnx"),
        },
    )
    assert chosen(card, CPU, without()).name == "default"
    assert chosen(card, CPU, without("torch")).name == "onnx"
    assert chosen(card, CPU, without("torch", "onnx")).name == "candle"


def test_a_card_without_profiles_has_a_default_one() -> None:
    choice = chosen(Card("m", Source(dir="."), "t5", Tasks(), 512), CPU, without())
    assert (choice.name, choice.profile, choice.passed) == ("default", Profile(), [])


def test_an_encoder_that_graphs_are_made_of_needs_no_profile_for_them() -> None:
    card = Card("m", Source(dir="."), "bert", Tasks(encode=EncodeTask(dense=Dense(8))), 512)
    assert chosen(card, CPU, without()).name == "default"
    choice = chosen(card, CPU, without("torch"))
    assert (choice.name, choice.profile, choice.lacks) == ("onnx", Profile("onnx"), None)
    assert chosen(card, ("onnx",), without(), only=True).name == "onnx"
    assert chosen(card, CPU, without("torch", "onnx")).lacks == "install onnx"


def _can_be_graphed(card: Card) -> bool:
    try:
        graphed_heads(heads_of(card))
    except ModelLoadFailed:
        return False
    return card.family in GRAPHED


def test_graphs_are_made_of_what_the_runtime_makes_them_of() -> None:
    assert {family.name for family in FAMILIES.values() if family.graphed} == {*GRAPHED}
    cards = [
        card for card in Catalog.load([]).cards() if card.profile("default").runtime == "torch"
    ]
    assert {c.name for c in cards if is_graphed(c)} == {c.name for c in cards if _can_be_graphed(c)}
