"""Items of models that take text: token ids for each task, or the text itself."""

from shoal.worker.text.plain import PlainPreparer, guessed
from shoal.worker.text.preparer import TextPreparer
from shoal.worker.text.prompts import prompt_of

__all__ = ["PlainPreparer", "TextPreparer", "guessed", "prompt_of"]
