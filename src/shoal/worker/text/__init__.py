"""Items of models that take text: token ids for each task, or the text itself."""

from shoal.worker.text.plain import PlainPreparer, guessed
from shoal.worker.text.preparer import TextPreparer
from shoal.worker.text.prompts import QUERY, prompt_of

__all__ = ["QUERY", "PlainPreparer", "TextPreparer", "guessed", "prompt_of"]
