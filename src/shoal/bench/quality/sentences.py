"""Sentences with personal data, drawn from a seed: names, addresses and numbers that nobody has.

Decides what is in them; the numbers are from ranges that are kept for examples where there are any.
"""

from __future__ import annotations

import random

_TEMPLATES = {
    "en": (
        "My name is {first} {last}, write to {mail} or call {phone}.",
        "Please ship it to {first} {last}, {number} {street}, {city} {zip}.",
        "{first} met {other} in {city} on Monday to talk about the harvest.",
        "Our customer {first} {last} ({mail}) moved from {city} to {street} {number}.",
        "The meeting is at {number} {street}; ask for Ms {last} or ring {phone}.",
        "Account {account} belongs to {first} {last} of {city}.",
        "Is {other} {last} still reachable under {mail}?",
        "The server was restarted twice last night, and nobody noticed.",
    ),
    "de": (
        "Ich heiße {first} {last}, erreichbar unter {mail} oder {phone}.",
        "Bitte liefern Sie an {first} {last}, {street} {number}, {zip} {city}.",
        "Herr {last} wohnt in der {street} {number}, {zip} {city}, Tel. {phone}.",
        "Frau {other} {last} zog von {city} in die {street} {number}.",
        "Bitte überweisen Sie den Betrag an {first} {last}, Konto {account}.",
        "Wer hat mit {first} in {city} über die Ernte gesprochen?",
        "Die Adresse {mail} gehört {other} {last} aus {city}.",
        "Der Server wurde letzte Nacht zweimal neu gestartet, und niemand hat es bemerkt.",
    ),
}
LANGUAGES = tuple(_TEMPLATES)

_FIRST = {
    "en": ("Maria", "James", "Priya", "Siobhán", "Tomasz", "Aisha", "Renée", "George"),
    "de": ("Klaus", "Jürgen", "Käthe", "Anna-Lena", "Björn", "Ayşe", "Wolfgang", "Heike"),
}
_LAST = {
    "en": (
        "Schneider",
        "O'Brien",
        "Natarajan",
        "Smith",
        "Kowalczyk",
        "Okafor",
        "Lee",
        "Fitzgerald",
    ),
    "de": ("Müller", "Weiß", "Großmann", "Yılmaz", "von Straßburg", "Öztürk", "Schäfer", "Meier"),
}
_STREETS = {
    "en": ("Baker Street", "Elm Road", "Queen's Avenue", "Harbour Lane", "Fifth Avenue"),
    "de": (
        "Lindenstraße",
        "Königsallee",
        "Am Mühlbach",
        "Goethestr.",
        "Bürgermeister-Smidt-Straße",
    ),
}
_CITIES = {
    "en": ("London", "Chicago", "San Francisco", "Leeds", "Cape Town"),
    "de": ("Berlin", "München", "Köln", "Frankfurt am Main", "Görlitz"),
}
_PHONES = {"en": "555-01{:02}", "de": "030 23125 {:03}"}
_DOMAINS = ("example.com", "mail.example.org", "example.net")


def sentences(language: str, count: int) -> list[str]:
    """So many, in turns of all kinds; the same ones every time."""
    rng = random.Random(language)
    kinds = _TEMPLATES[language]
    return [kinds[place % len(kinds)].format_map(_values(language, rng)) for place in range(count)]


def sentence(language: str, rng: random.Random) -> str:
    """One of any kind, as `rng` draws it."""
    return rng.choice(_TEMPLATES[language]).format_map(_values(language, rng))


def _values(language: str, rng: random.Random) -> dict[str, object]:
    first, last = rng.choice(_FIRST[language]), rng.choice(_LAST[language])
    user = f"{first}.{last}".lower().replace(" ", "").replace("'", "")
    return {
        "first": first,
        "last": last,
        "other": rng.choice(_FIRST[language]),
        "mail": f"{user if user.isascii() else f'kunde{rng.randint(10, 99)}'}@{rng.choice(_DOMAINS)}",
        "phone": _PHONES[language].format(rng.randint(0, 99)),
        "street": rng.choice(_STREETS[language]),
        "number": rng.randint(1, 250),
        "city": rng.choice(_CITIES[language]),
        "zip": f"{rng.randint(10_000, 99_999)}",
        "account": f"{rng.randint(10**8, 10**9 - 1)}",
    }
