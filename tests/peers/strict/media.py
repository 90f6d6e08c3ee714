"""Images and documents, recognised by their first bytes."""

import base64
import binascii

MAGIC = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
]


def decode(data):
    """The bytes of standard base64, or nothing."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def kind(data):
    """The media type of bytes, or nothing for an unknown one."""
    for magic, name in MAGIC:
        if data.startswith(magic):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"mif1", b"msf1"):
        return "image/heic"
    return None


def data_url(url):
    """(media type, base64) of a data URL, or nothing."""
    if not url.startswith("data:") or ";base64," not in url:
        return None
    head, data = url[5:].split(",", 1)
    return head.split(";")[0], data
