"""llama.cpp's C interface (`llama.h`), as the package xllamacpp carries it: models, passes, keys.

That package is a wheel of 34 MB without dependencies, and its own Python interface has a server that
gives text and no ids. Its shared object exports the C interface, which is used here. What structs look
like changes between versions of llama.cpp: what a new struct of default values holds must be what the
definitions here say, or nothing is loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int8,
    c_int32,
    c_size_t,
    c_uint32,
    c_void_p,
)
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.errors import ModelLoadFailed
from shoal.runtimes.base import OutOfMemory
from shoal.runtimes.packages import told

PACKAGE = "xllamacpp"
#: Whose structs these are.
KNOWN = "2026.10.11549"


class _ModelParams(Structure):
    """`llama_model_params` as far as it is used; more of it follows."""

    _fields_ = [
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("rest", c_int8 * 228),
    ]


class _ContextParams(Structure):
    """`llama_context_params`."""

    _fields_ = [
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_rs_seq", c_uint32),
        ("n_outputs_max", c_uint32),
        ("n_outputs_max_per_seq", c_uint32),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("types", c_int * 5),
        ("rope", c_float * 6),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("callback", c_void_p * 2),
        ("type_k", c_int),
        ("type_v", c_int),
        ("abort", c_void_p * 3),
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
        ("rest", c_int8 * 128),
    ]


#: Of a struct of default values: fields that no other layout would give.
_DEFAULTS: dict[str, Any] = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "type_k": 1,
    "type_v": 1,
    "embeddings": False,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
    "kv_unified": False,
    "samplers": None,
    "n_samplers": 0,
}


class _Batch(Structure):
    """`llama_batch`."""

    _fields_ = [
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", c_void_p),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    ]


_LOG = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
#: Results and arguments of what is called.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "llama_backend_init": (None, []),
    "llama_log_set": (None, [_LOG, c_void_p]),
    "llama_model_default_params": (_ModelParams, []),
    "llama_context_default_params": (_ContextParams, []),
    "llama_model_load_from_file": (c_void_p, [c_char_p, _ModelParams]),
    "llama_model_free": (None, [c_void_p]),
    "llama_model_size": (ctypes.c_uint64, [c_void_p]),
    "llama_model_n_ctx_train": (c_int32, [c_void_p]),
    "llama_model_n_layer": (c_int32, [c_void_p]),
    "llama_model_n_embd": (c_int32, [c_void_p]),
    "llama_model_n_head": (c_int32, [c_void_p]),
    "llama_model_n_head_kv": (c_int32, [c_void_p]),
    "llama_model_get_vocab": (c_void_p, [c_void_p]),
    "llama_vocab_n_tokens": (c_int32, [c_void_p]),
    "llama_init_from_model": (c_void_p, [c_void_p, _ContextParams]),
    "llama_free": (None, [c_void_p]),
    "llama_get_memory": (c_void_p, [c_void_p]),
    "llama_memory_seq_rm": (c_bool, [c_void_p, c_int32, c_int32, c_int32]),
    "llama_state_seq_get_size": (c_size_t, [c_void_p, c_int32]),
    "llama_state_seq_get_data": (c_size_t, [c_void_p, c_void_p, c_size_t, c_int32]),
    "llama_state_seq_set_data": (c_size_t, [c_void_p, c_void_p, c_size_t, c_int32]),
    "llama_batch_init": (_Batch, [c_int32, c_int32, c_int32]),
    "llama_batch_free": (None, [_Batch]),
    "llama_decode": (c_int32, [c_void_p, _Batch]),
    "llama_get_logits_ith": (POINTER(c_float), [c_void_p, c_int32]),
}
#: What `llama_decode` returns where keys have no room.
_NO_ROOM = 1


def _told(level: int, text: bytes, _: Any) -> None:
    """Errors alone (level 4), to the log of whoever started the process."""
    if level == 4:
        print(text.decode("utf-8", "replace"), end="", flush=True)


_QUIET = _LOG(_told)  # kept: the library calls it as long as the process lives


@cache
def library() -> Any:
    """The library, once a process. Raises `ModelLoadFailed` for one of an unknown layout."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModelLoadFailed(told("gguf", PACKAGE))
    (path, *_) = sorted(Path(found.origin).parent.glob(f"{PACKAGE}*.so")) or [Path()]
    try:
        lib = ctypes.CDLL(str(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise ModelLoadFailed(_unknown(str(error))) from None
    given = lib.llama_context_default_params()
    for field, expected in _DEFAULTS.items():
        if getattr(given, field) != expected:
            raise ModelLoadFailed(_unknown(f"{field} is {getattr(given, field)} by default"))
    lib.llama_log_set(_QUIET, None)
    lib.llama_backend_init()
    return lib


def _unknown(what: str) -> str:
    return (
        f"{PACKAGE} {version(PACKAGE)} is none that the gguf runtime knows ({what}): "
        f"pip install {PACKAGE}=={KNOWN}"
    )


class Row(NamedTuple):
    """One token of a pass: of which sequence, at which place; `wanted`: logits that follow it."""

    token: int
    place: int
    sequence: int
    wanted: bool


class Context:
    """A loaded file and the keys of so many sequences, which share `places` places for tokens."""

    def __init__(
        self, path: Path, *, sequences: int, places: int, rows: int, threads: int, gpu: bool
    ) -> None:
        """`rows`: most of a pass. Raises `ModelLoadFailed`, `OutOfMemory`."""
        self._lib = lib = library()
        self._model = self._context = None
        settings = lib.llama_model_default_params()
        settings.n_gpu_layers = -1 if gpu else 0
        self._model = lib.llama_model_load_from_file(str(path).encode(), settings)
        if not self._model:
            raise ModelLoadFailed(f"llama.cpp cannot read {path.name}: the log says why")
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_seq_max = places, sequences
        params.n_batch = params.n_ubatch = rows
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified, params.no_perf = True, True
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            self.close()
            raise OutOfMemory(f"{path.name}: no memory for the keys of {places} tokens")
        self._memory = lib.llama_get_memory(self._context)
        self._batch = lib.llama_batch_init(rows, 0, 1)
        self.vocabulary: int = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))
        self.weight_bytes: int = lib.llama_model_size(self._model)
        self.max_tokens: int = lib.llama_model_n_ctx_train(self._model)

    def key_bytes(self, places: int) -> int:
        """Of keys and values for so many tokens, in float16."""
        lib, model = self._lib, self._model
        width = lib.llama_model_n_embd(model) // lib.llama_model_n_head(model)
        kept = lib.llama_model_n_layer(model) * lib.llama_model_n_head_kv(model) * width
        return int(places * kept * 2 * 2)

    def close(self) -> None:
        """Give all of it back; nothing else may be called."""
        if self._context:
            self._lib.llama_batch_free(self._batch)
            self._lib.llama_free(self._context)
        if self._model:
            self._lib.llama_model_free(self._model)
        self._context = self._model = None

    def compute(self, rows: Sequence[Row]) -> None:
        """One pass. Raises `MemoryError` if its keys have no room."""
        batch = self._batch
        batch.n_tokens = len(rows)
        for at, row in enumerate(rows):
            batch.token[at], batch.pos[at] = row.token, row.place
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, row.sequence
            batch.logits[at] = row.wanted
        status = self._lib.llama_decode(self._context, batch)
        if status == _NO_ROOM:
            raise MemoryError(f"the keys have no room for {len(rows)} tokens more")
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")

    def logits(self, row: int) -> NDArray[np.float32]:
        """Of this row of the last pass, [vocabulary]: the library's own, which may be changed, until the next."""
        found = self._lib.llama_get_logits_ith(self._context, row)
        return np.ctypeslib.as_array(found, (self.vocabulary,))

    def forget(self, sequence: int, first: int = 0) -> None:
        """The keys of a sequence from this place on are no longer held."""
        self._lib.llama_memory_seq_rm(self._memory, sequence, first, -1)

    def state(self, sequence: int) -> NDArray[np.uint8]:
        """The keys of a sequence, and where they belong, as the library writes them."""
        size = self._lib.llama_state_seq_get_size(self._context, sequence)
        state = np.empty(size, np.uint8)
        written = self._lib.llama_state_seq_get_data(
            self._context, state.ctypes.data, size, sequence
        )
        return state[:written]

    def restore(self, sequence: int, state: NDArray[np.uint8]) -> None:
        """Give a sequence, which has none, the keys that `state` gave. Raises `MemoryError` without room."""
        read = self._lib.llama_state_seq_set_data(
            self._context, state.ctypes.data, len(state), sequence
        )
        if read != len(state):
            raise MemoryError(f"the keys have no room for {len(state)} bytes that were kept")
