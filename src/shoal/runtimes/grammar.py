"""What a text must be, a token at a time: JSON, JSON of a schema, a regular expression, a Lark grammar.

For any runtime: it knows ids and masks of them, no logits. Parsing is llguidance's (MIT; 3 MB, without
dependencies, and torch is none of its; xgrammar, which asks for torch and transformers, knows no Lark).
With SmolLM2's 49,152 tokens: the tokenizer 0.4 s and 38 MB once a model, a schema 0.5 to 4 ms, a mask
5 to 80 µs. JSON is written in one line, as `json.dumps` does it: where blanks are free a small model
may write nothing else.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shoal.errors import InvalidRequest, bounded
from shoal.runtimes.steps import check_steps
from shoal.runtimes.trial import TRIED_FROM, Trials, limits

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_JSON: Any = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
#: Compiled ones that are kept of one model.
_KEPT = 64
_NOTHING = "no token of the model's may follow here, nor may the text end"


class Grammar:
    """One text under a grammar. Not for several threads at once."""

    def __init__(self, matcher: LLMatcher, end: int, vocabulary: int) -> None:
        """`end`: the id by which the tokenizer ends a text, which callers may not mean."""
        self._matcher, self._end, self._vocabulary = matcher, end, vocabulary

    @property
    def complete(self) -> bool:
        """Whether the text may end here."""
        return bool(self._matcher.is_accepting())

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""
        return bool(self._matcher.is_stopped())

    def allowed(self, ends: list[int]) -> NDArray[np.bool_]:
        """The ids that may follow, bool [vocabulary]; `ends`, those that end a text, where it may.

        Raises `InvalidRequest` where the grammar turned out too large, or lets nothing follow.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        mask = np.zeros(self._vocabulary, np.bool_)
        known = np.unpackbits(bits, bitorder="little", count=min(8 * len(bits), self._vocabulary))
        mask[: len(known)] = known
        mask[self._end : self._end + 1] = False
        mask[[token for token in ends if 0 <= token < self._vocabulary]] = self.complete
        if not mask.any():
            raise _refused(_NOTHING)
        return mask

    def accept(self, token: int) -> None:
        """The text goes on with this one, which was allowed and ends nothing."""
        self._matcher.consume_token(token)
        self._check()

    def anew(self) -> Grammar:
        """The same for another text, from where this one is."""
        return Grammar(self._matcher.deep_copy(), self._end, self._vocabulary)

    def _check(self) -> None:
        if self._matcher.is_error():
            raise _refused(self._matcher.get_error())


class Grammars:
    """Those of one model: what was compiled is kept, and compiled in threads of their own.

    Those that may take seconds have one for themselves, so that the others do not wait for them.
    """

    def __init__(self, tokenizer: Path, vocabulary: int, trials: Trials | None = None) -> None:
        """`vocabulary`: of the model's logits, which may be more than the tokenizer knows."""
        self._path, self._vocabulary = tokenizer, vocabulary
        self._tokenizer: LLTokenizer | None = None
        self._reading = threading.Lock()  # guards `_tokenizer`
        self._compiled: OrderedDict[tuple[str, str], Grammar | InvalidRequest] = OrderedDict()
        self._lock = threading.Lock()  # guards `_compiled`
        self._trials = trials or Trials()
        self._threads = ThreadPoolExecutor(1, "grammars")
        self._long = ThreadPoolExecutor(1, "long-grammars")

    def of(self, kind: str, text: str) -> Future[Grammar]:
        """A text's grammar, at its beginning.

        The future raises `InvalidRequest` that says what is wrong with the grammar, or that this process
        has not what it needs.
        """
        known = self._known(kind, text)
        if known is None:
            threads = self._threads if len(text) < TRIED_FROM else self._long
            return threads.submit(self._ready, kind, text)
        done: Future[Grammar] = Future()
        if isinstance(known, InvalidRequest):
            done.set_exception(known)
        else:
            done.set_result(known.anew())
        return done

    def _known(self, kind: str, text: str) -> Grammar | InvalidRequest | None:
        with self._lock:
            known = self._compiled.get((kind, text))
            if known is not None:
                self._compiled.move_to_end((kind, text))
            return known

    def close(self) -> None:
        """Nothing is asked for any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._long.submit(self._trials.end)
        self._long.shutdown(wait=False)

    def _ready(self, kind: str, text: str) -> Grammar:
        known = self._known(kind, text)  # another sequence of the same request may have come first
        if known is None:
            try:
                known = self._compile(kind, text)
            except InvalidRequest as error:
                known = error
            with self._lock:
                self._compiled[kind, text] = known
                while len(self._compiled) > _KEPT:
                    self._compiled.popitem(last=False)
        if isinstance(known, InvalidRequest):
            raise known
        return known.anew()

    def _compile(self, kind: str, text: str) -> Grammar:
        try:
            from llguidance import LLMatcher
        except ImportError:
            raise InvalidRequest(
                "a grammar needs the package 'llguidance' where the model runs: "
                "pip install 'shoal[grammar]'"
            ) from None
        with self._reading:
            if self._tokenizer is None:
                self._tokenizer = _read(self._path)
        source = _source(kind, text)
        if len(text) >= TRIED_FROM:
            self._trials.check(source)
        matcher = LLMatcher(self._tokenizer, source, log_level=0, limits=limits())
        if matcher.is_error():
            raise _refused(matcher.get_error())
        return Grammar(matcher, self._tokenizer.eos_token, self._vocabulary)


def _read(path: Path) -> LLTokenizer:
    from llguidance import LLTokenizer

    try:
        return LLTokenizer(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            f"no grammar can be kept by this model: its {path.name} cannot be read: {error}"
        ) from None


def _source(kind: str, text: str) -> str:
    """A grammar as the library reads it."""
    from llguidance import LLMatcher

    check_steps(text)
    match kind:
        case "json_object":
            return LLMatcher.grammar_from_json_schema('{"type": "object"}', overrides=_JSON)
        case "json_schema":
            try:
                return LLMatcher.grammar_from_json_schema(text, overrides=_JSON)
            except ValueError as error:
                raise _refused(str(error)) from None
        case "regex":
            return LLMatcher.grammar_from_regex(text)
        case "lark":
            return LLMatcher.grammar_from_lark(text)
    raise InvalidRequest(
        f"there is no grammar of kind {kind!r}; there are json_object, json_schema, regex and lark"
    )


def _refused(said: str) -> InvalidRequest:
    # What the library tells of a grammar by which nothing goes on is the name of a state alone.
    said = said.removesuffix("<non-verbose/>").strip()
    said = _NOTHING if said.startswith("NoExtension") else said
    return InvalidRequest(bounded(f"the grammar cannot be kept: {said}"))
