"""Reading pictures: a detector, a classifier of angles and a recogniser, as one model."""
