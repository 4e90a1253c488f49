"""Images and sound: from the bytes of a file to what a model takes."""

from shoal.worker.media.files import MediaPreparer

__all__ = ["MediaPreparer"]
