"""English-looking texts for benchmarks: the same ones from the same seed, on every machine.

Decides words, sentences and lengths. Words are frequent ones, which subword vocabularies hold
whole, so that words and punctuation marks count tokens closely.
"""

from __future__ import annotations

import random

_NOUN_LIST = """
time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work government number night point
home water room mother area money story fact month lot right study book eye job word business issue
side kind head house service friend father power hour game line end member law car city community
name president team minute idea body information back parent face others level office door health
person art war history party result change morning reason research girl guy moment air teacher force
education contract market report letter model price court bank agreement product customer ship island
river market farm harbour engine paper bridge winter summer garden machine signal network record
"""
_VERB_LIST = """
is was has had said made went took came saw knew got gave found thought told became showed left felt
put brought began kept held wrote stood heard let meant set met ran paid sat spoke lay led read grew
lost fell sent built understood drew broke spent cut rose drove bought wore chose needs wants uses
works calls tries asks plays moves lives believes happens includes continues changes follows creates
"""
_ADJECTIVE_LIST = """
good new first last long great little own other old big high different small large next early young
important few public bad same able local sure free better open whole clear recent certain full real
simple strong late hard major common poor natural similar final main green dark warm quiet rapid
"""
_SMALL_LIST = """
the of and a to in he it that his her you as had with for she not at but be my on have him is said
me which by so this all from they no were if would or when what there been one could very an who them
more out some into up their do any then your now only about its over after before under between
"""

_NOUNS, _VERBS = _NOUN_LIST.split(), _VERB_LIST.split()
_ADJECTIVES, _SMALL = _ADJECTIVE_LIST.split(), _SMALL_LIST.split()

#: What every vocabulary adds to a text: one token before it and one after it.
SPECIAL_TOKENS = 2
#: Lengths as in the log-normal law of search and document traffic: half of the texts are shorter
#: than 44 tokens, one in six is longer than twice that.
MEDIAN_TOKENS = 44
_LOG_MEDIAN = 3.784
_LOG_SPREAD = 0.7
_LONGEST = 250
_SHORTEST = 5


def mixed_length(rng: random.Random) -> int:
    """Tokens of one text, log-normal around `MEDIAN_TOKENS`, special ones included."""
    return max(_SHORTEST, min(_LONGEST, round(rng.lognormvariate(_LOG_MEDIAN, _LOG_SPREAD))))


def short_length(rng: random.Random) -> int:
    """Tokens of a search query: 6 to 14, special ones included."""
    return rng.randint(6, 14)


def text(rng: random.Random, tokens: int) -> str:
    """One text of about `tokens` tokens, special ones included."""
    words: list[str] = []
    left = tokens - SPECIAL_TOKENS
    while left > 0:
        sentence = _sentence(rng, left)
        left -= len(sentence) + 1
        words.append(f"{' '.join(sentence).capitalize()}.")
    return " ".join(words)


def _sentence(rng: random.Random, most: int) -> list[str]:
    """Words of a sentence that takes at most `most` tokens with its full stop."""
    length = min(rng.randint(5, 19), most - 1)
    if most - length < 4:  # a rest too small for a sentence of its own
        length = most - 1
    return [_word(rng, position) for position in range(max(1, length))]


def _word(rng: random.Random, position: int) -> str:
    """A small word first, then content words: roughly the rhythm of English."""
    words = (_SMALL, _ADJECTIVES, _NOUNS, _VERBS)[position % 4]
    return rng.choice(_SMALL if rng.random() < 0.25 else words)
