"""Words that are one unknown token however long they are, without reading all of them: WordPiece's.

It looks no word up that has more than a hundred characters. So of a longer one a part from its start and
its end is the same token, if the tokenizer takes its characters apart nowhere.
"""

from __future__ import annotations

import re

from tokenizers import Tokenizer, models

#: Letters and digits of Latin, Greek and Cyrillic: of others fewer words are so long, or words are
#: parted otherwise.
_CANDIDATES = [chr(point) for point in range(0x30, 0x530) if chr(point).isalnum()]
#: Kept of a word's end: an added token may begin there, and end behind the word.
_TAIL = 64


class LongWords:
    """Of one tokenizer; of those that are not WordPiece, every word stays as it is."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._run: re.Pattern[str] | None = None
        if not isinstance(tokenizer.model, models.WordPiece):
            return
        kept = "".join(c for c in _CANDIDATES if _is_inside_words(tokenizer, c))
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        if not kept or any(len(a) > _TAIL or re.fullmatch(f"[{kept}]*", a) for a in added):
            return
        most = tokenizer.model.max_input_chars_per_word + 1
        # From the start of a word only: from within, all of it would be looked at from each place.
        self._run = re.compile(rf"(?<![{kept}])([{kept}]{{{most}}})[{kept}]+([{kept}]{{{_TAIL}}})")

    def shortened(self, text: str) -> str:
        """A text of the same tokens, with less of its longest words."""
        return text if self._run is None else self._run.sub(r"\1\2", text)


def _is_inside_words(tokenizer: Tokenizer, character: str) -> bool:
    """Whether it parts no word, and is none of the characters that go."""
    word = f"a{character}a"
    if tokenizer.normalizer is not None:
        word = tokenizer.normalizer.normalize_str(word)
    if tokenizer.pre_tokenizer is None:
        return len(word) >= 3
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str(word)
    return len(pieces) == 1 and len(pieces[0][0]) >= 3
