"""The `model_type` that the config.json of a card's model says, for tests that build one."""

from __future__ import annotations

from shoal.catalog.card import Card
from shoal.catalog.families import FAMILIES

#: Where it is not the first of the family's, as the tags of the models' pages say.
OTHERS = {
    "multilingual-e5-base": "xlm-roberta",
    "multilingual-e5-large": "xlm-roberta",
    "paraphrase-multilingual-mpnet-base-v2": "xlm-roberta",
    "snowflake-arctic-embed-l-v2.0": "xlm-roberta",
    "mmarco-mMiniLMv2-L12-H384-v1": "xlm-roberta",
    "bge-reranker-base": "xlm-roberta",
    "bge-reranker-v2-m3": "xlm-roberta",
    "xlm-roberta-base-ner-hrl": "xlm-roberta",
    "xlm-roberta-large-ner-hrl": "xlm-roberta",
    "xlm-roberta-base-language-detection": "xlm-roberta",
    "bge-m3-zeroshot-v2.0": "xlm-roberta",
    "snowflake-arctic-embed-m-v2.0": "gte",
}


def model_type_of(card: Card) -> str:
    return OTHERS.get(card.name, FAMILIES[card.family].model_types[0])
