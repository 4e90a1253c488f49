"""One file per kind of source; each turns a `Source` into a folder of data files."""
