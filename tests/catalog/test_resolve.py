from __future__ import annotations

from pathlib import Path

import pytest

from shoal.catalog.card import Card, Source
from shoal.catalog.parse import to_yaml
from shoal.catalog.resolve import Catalog
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import CardError, UnknownModel

CARDS = Path(__file__).parent.parent / "cards"


def card(name: str, *aliases: str, dim: int = 8) -> Card:
    return Card(
        name=name,
        aliases=list(aliases),
        source=Source(dir="/m"),
        family="fake",
        tasks=Tasks(encode=EncodeTask(dense=Dense(dim))),
        max_tokens=8,
    )


def save(folder: Path, *cards: Card) -> str:
    folder.mkdir()
    for i, each in enumerate(cards):
        (folder / f"{i}.yaml").write_text(to_yaml(each))
    return str(folder)


def names_of(catalog: Catalog) -> list[str]:
    return sorted(name for each in catalog.cards() for name in (each.name, *each.aliases))


def test_the_packaged_catalog() -> None:
    catalog = Catalog.load([])
    minilm = catalog.card("all-MiniLM-L6-v2")
    assert catalog.card("minilm") is minilm
    assert catalog.card("sentence-transformers/all-MiniLM-L6-v2") is minilm
    assert "fake" not in catalog


def test_what_conversions_of_the_zoo_make_is_pinned() -> None:
    zoo = Catalog.load([]).zoo()
    assert "bge-small-en-v1.5" in [card.name for card in zoo]
    recipes = [card.source.convert for card in zoo if card.source.convert is not None]
    assert all(recipe.result is not None for recipe in recipes)


def test_no_model_answers_under_the_name_of_another() -> None:
    with pytest.raises(UnknownModel):
        Catalog.load([]).card("text-embedding-3-small")


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UnknownModel, match="did you mean 'all-MiniLM-L6-v2'") as error:
        Catalog.load([]).card("all-minilm-l6-v2")
    assert error.value.param == "model"


def test_the_card_of_the_fake_runtime() -> None:
    fake = Catalog.load([str(CARDS)]).card("fake")
    assert fake.profile("cpu").runtime == "fake"
    assert fake.source.dir == str(CARDS.resolve())


def test_files_and_folders_add_to_the_packaged_cards(tmp_path: Path) -> None:
    folder = save(tmp_path / "a", card("x"), card("w", "y"))
    names = names_of(Catalog.load([f"{folder}/0.yaml", folder]))
    assert names == sorted({"w", "x", "y", *names_of(Catalog.load([]))})


def test_folders_below_a_folder_hold_cards_too(tmp_path: Path) -> None:
    save(tmp_path / "cards", card("top"))
    save(tmp_path / "cards" / "team", card("below"))
    save(tmp_path / "cards" / ".hidden", card("hidden"))
    model = tmp_path / "cards" / "model"
    save(model, card("of-a-model"))
    (model / "config.json").write_text("{}")
    catalog = Catalog.load([str(tmp_path / "cards")])
    assert [name for name in ("top", "below", "hidden", "of-a-model") if name in catalog] == [
        "top",
        "below",
    ]


def test_folders_of_one_folder_cannot_share_a_name(tmp_path: Path) -> None:
    save(tmp_path / "cards", card("one"))
    save(tmp_path / "cards" / "team", card("two", "one"))
    with pytest.raises(CardError, match=r"team/0.yaml: 'one' is already taken by .*cards/0.yaml"):
        Catalog.load([str(tmp_path / "cards")])


def test_later_cards_win(tmp_path: Path) -> None:
    first = save(tmp_path / "a", card("x", "old", dim=1))
    second = save(tmp_path / "b", card("x", "new", dim=2))
    catalog = Catalog.load([first, second])
    assert catalog.card("x").tasks == Tasks(encode=EncodeTask(dense=Dense(2)))
    assert "new" in catalog
    assert "old" not in catalog


def test_a_later_name_takes_an_alias_away(tmp_path: Path) -> None:
    catalog = Catalog([card("x", "y", "z")]).with_card(card("y"))
    assert catalog.card("y").name == "y"
    assert catalog.card("z") == card("x", "z")
    assert [each.name for each in catalog.cards()] == ["x", "y"]


def test_a_later_alias_hides_a_card_of_that_name() -> None:
    catalog = Catalog([card("x", "z")]).with_card(card("y", "x"))
    assert catalog.card("x").name == "y"
    assert names_of(catalog) == ["x", "y"]


def test_with_card_leaves_the_catalog_as_it_was() -> None:
    catalog = Catalog([card("x")])
    assert names_of(catalog.with_card(card("y"))) == ["x", "y"]
    assert names_of(catalog) == ["x"]


@pytest.mark.parametrize("second", [card("x"), card("y", "x"), card("z", "b")])
def test_two_cards_of_one_folder_cannot_share_a_name(tmp_path: Path, second: Card) -> None:
    folder = save(tmp_path / "a", card("x", "b"), second)
    with pytest.raises(CardError, match=r"1\.yaml: '[xb]' is already taken by .*0\.yaml"):
        Catalog.load([folder])


def test_paths_that_hold_no_cards(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="no such card file or folder"):
        Catalog.load([str(tmp_path / "none")])
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CardError, match="is a model, not a folder of cards"):
        Catalog.load([str(tmp_path)])
