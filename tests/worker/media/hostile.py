"""Small files that would take long: written here, as no library writes them."""

from __future__ import annotations

import struct
import zlib


def jpeg_of_scans(width: int, height: int, scans: int) -> bytes:
    """A progressive picture, gray, of which each scan after the first adds nothing to all blocks.

    ITU-T T.81, G.1.2.2: one code of 15 bits stands for the end of 32,767 blocks.
    """
    blocks = -(-width // 8) * -(-height // 8)
    parts = [
        b"\xff\xd8",
        b"\xff\xdb" + struct.pack(">HB", 67, 0) + bytes([1] * 64),
        b"\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + bytes([1, 0x11, 0]),
        _one_code(0x00, 0x00),
        _one_code(0x10, 0xE0),
        _scan(0, 0, "0" * blocks),
        *[_scan(1, 63, ("0" + "1" * 14) * -(-blocks // 32_767))] * (scans - 1),
        b"\xff\xd9",
    ]
    return b"".join(parts)


def _one_code(table: int, symbol: int) -> bytes:
    """A Huffman table whose only code is 0."""
    return b"\xff\xc4" + struct.pack(">HB", 20, table) + bytes([1] + [0] * 15) + bytes([symbol])


def _scan(first: int, last: int, bits: str) -> bytes:
    bits += "1" * (-len(bits) % 8)
    data = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    head = b"\xff\xda" + struct.pack(">HB", 8, 1) + bytes([1, 0x00, first, last, 0])
    return head + data.replace(b"\xff", b"\xff\x00")


def tiff_of_tiles(across: int, down: int) -> bytes:
    """A gray picture in tiles of 16 x 16, all of which are the same bytes."""
    count = across * down
    tags = [
        (256, across * 16),
        (257, down * 16),
        (258, 8),
        (259, 1),
        (262, 1),
        (277, 1),
        (322, 16),
        (323, 16),
    ]
    offsets = 8 + 2 + 12 * (len(tags) + 2) + 4
    entries = [(tag, 1, value) for tag, value in tags]
    entries += [(324, count, offsets), (325, count, offsets + 4 * count)]
    packed = b"".join(struct.pack("<HHII", tag, 4, n, value) for tag, n, value in entries)
    head = b"II*\0" + struct.pack("<IH", 8, len(entries)) + packed + bytes(4)
    where = struct.pack("<I", offsets + 8 * count) * count
    return head + where + struct.pack("<I", 256) * count + b"\x80" * 256


def pdf_of_fills(count: int) -> bytes:
    """A page that is filled so many times over."""
    return _pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R>>",
            _stream(b"/Filter/FlateDecode", zlib.compress(b"0 0 612 792 re f\n" * count, 9)),
        ]
    )


def _stream(said: bytes, data: bytes) -> bytes:
    return b"<<%b/Length %d>>stream\n%b\nendstream" % (said, len(data), data)


def _pdf(objects: list[bytes]) -> bytes:
    data = b"%PDF-1.7\n"
    places = []
    for number, one in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    head = b"xref\n0 %d\n0000000000 65535 f \n%b" % (size, table)
    tail = b"trailer <</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, len(data))
    return data + head + tail
