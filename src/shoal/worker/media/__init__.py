"""Images and sound: from the bytes of a file to what a model takes."""

from shoal.worker.media.files import MediaPreparer
from shoal.worker.media.preparer import DecodingPreparer, decodes

__all__ = ["DecodingPreparer", "MediaPreparer", "decodes"]
