"""The first tokens of a long text, without tokenizing the rest of it.

Most tokenizers take a text apart at spaces before anything else, many at punctuation too. They give
the start of a text the same tokens whatever comes later, but for a few words at the end of what
they were shown: there a pattern may look ahead, or take a run of spaces whole. So a prefix is
tokenized, cut before a separator, and what lies well before the cut is believed. Where no separators
lie, the tokenizer's own pieces are counted, and two cuts must agree. Where nothing parts a text, the first
half of what was shown is believed, if cuts agree: of byte pairs two, since a merge depends on what is near,
and on what is far only where ranks fall one after the other; of unigrams one for each length of a token,
since the best path of the whole ends a token at one of them, and up to there is the best path of that cut
(Kudo, 2018: Viterbi). Of WordPiece's, words that are too long for it are shortened (`longwords`). Other kinds
are shown the whole of such a text, and these where the cuts part, as in "aaaa…"; a token of a text of
megabytes takes 400 bytes.

All of it is tokenized as a batch: of one text alone the library lets no other thread run meanwhile.
"""

from __future__ import annotations

import re

from tokenizers import Encoding, Tokenizer, models

from shoal.worker.longwords import LongWords

#: Characters shown for each token wanted: English has 4 to 5, and a prefix that is too short costs
#: another try with twice as many.
CHARACTERS_PER_TOKEN = 8
#: The cut is looked for in so many characters; of the words there, all but the first are doubted.
MARGIN = 512
LEAST_DOUBTED = 3
#: How much longer the next prefix is where no separators were: of one word of megabytes that is shown
#: whole in the end, all tries before take about half as long as that does.
WITHOUT_SEPARATORS = 8
#: What may part words: spaces, and the punctuation of scripts that write none.
CANDIDATES = " \n。，、！？"


class Prefixes:
    """Of one tokenizer, which must neither pad nor truncate."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        kind = tokenizer.model
        self._apart = isinstance(kind, models.BPE | models.Unigram)
        longest = max(map(len, tokenizer.get_vocab()), default=0)
        self._cuts = 1 + longest if isinstance(kind, models.Unigram) else 2
        self.separators = "".join(c for c in CANDIDATES if _parts(tokenizer, c))
        self._words = LongWords(tokenizer)
        self._runs = re.compile(f"[{self.separators}]+") if self.separators else None

    def first_ids(self, text: str, count: int) -> list[int]:
        """The first `count` ids of `text`, all of them if it has fewer; without special tokens."""
        size = CHARACTERS_PER_TOKEN * count + 2 * MARGIN
        while size < len(text):
            cut, sure = self._cut(text, size)
            if sure:
                encoding = self._located(text[:cut])
                if _end_of(encoding, count) <= sure:
                    return list(encoding.ids[:count])
                size *= 2
                continue
            if (shorter := self._words.shortened(text)) != text:
                text = shorter
                continue
            # How digits are grouped may depend on how many there are up to the cut.
            cuts = (self._believed(text[: size - less], count) for less in range(self._cuts))
            ids = next(cuts)
            if ids is not None and all(other == ids for other in cuts):
                return ids
            size *= WITHOUT_SEPARATORS
        (encoding,) = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return list(encoding.ids[:count])

    def _cut(self, text: str, size: int) -> tuple[int, int]:
        """Where to end a prefix of about `size` characters, and how far its tokens are sure.

        Both zero where there are too few separators.
        """
        if self._runs is None:
            return 0, 0
        starts = [run.start() for run in self._runs.finditer(text, size - MARGIN, size)]
        return (starts[-1], starts[0]) if len(starts) > LEAST_DOUBTED else (0, 0)

    def _believed(self, prefix: str, count: int) -> list[int] | None:
        """The first `count` ids, if they lie well before the end: in characters, and in pieces or by half."""
        encoding = self._located(prefix)
        end = _end_of(encoding, count)
        if end > len(prefix) - MARGIN:
            return None
        if not (self._apart and end <= len(prefix) // 2):
            own, last = (encoding.token_to_word(at) for at in (count - 1, len(encoding) - 1))
            if own is None or last is None or last - own <= LEAST_DOUBTED:
                return None
        return list(encoding.ids[:count])

    def _located(self, text: str) -> Encoding:
        """With where the tokens lie in the text."""
        (encoding,) = self._tokenizer.encode_batch([text], add_special_tokens=False)
        return encoding


def _parts(tokenizer: Tokenizer, separator: str) -> bool:
    """Whether no token holds words from both sides of `separator`."""
    splitter = tokenizer.pre_tokenizer
    if splitter is None:
        return False
    probe = f"one{separator}two{separator}{separator}3三{separator}四五!{separator}six"
    pieces = splitter.pre_tokenize_str(probe)
    slices = [probe[start:end] for _, (start, end) in pieces]
    return all(len([w for w in s.split(separator) if w.strip()]) <= 1 for s in slices)


def _end_of(encoding: Encoding, count: int) -> float:
    """Where the first `count` tokens end, in characters; infinity if there are not as many."""
    if len(encoding) < count:
        return float("inf")
    places = (encoding.token_to_chars(at) for at in range(count))  # all offsets would be made first
    return max((end for _, end in filter(None, places)), default=0)
