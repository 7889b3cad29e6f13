"""Files that are made to harm the programs that store, paint or show them, and harmless ones. Small, all of them.

A script that runs in a browser calls `globalThis.ran`, asks for `/ran`, and opens a dialog.
"""

import gzip
import io
import struct
import zlib

from PIL import Image

SCRIPT = (
    "try{top.ran=1}catch(e){}try{globalThis.ran=1}catch(e){}"
    "try{new Image().src='/ran?'+document.cookie}catch(e){}try{fetch('/ran')}catch(e){}try{alert('ran')}catch(e){}"
)
HTML = f'<!DOCTYPE html><html><body onload="{SCRIPT}"><script>{SCRIPT}</script><h1>Hello</h1></body></html>'
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30" '
    f'onload="{SCRIPT}"><script>{SCRIPT}</script><rect width="40" height="30"/></svg>'
)
XHTML = (
    '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>'
    f"<body><script>{SCRIPT}</script></body></html>"
)
XSLT = (
    '<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="#s"?><doc>'
    '<xsl:stylesheet id="s" version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/">'
    f"<html><script>{SCRIPT}</script></html></xsl:template></xsl:stylesheet></doc>"
)
MHTML = (
    "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n--x\nContent-Type: text/html\n\n"
    + HTML
    + "\n--x--\n"
)


def picture(image_format: str, size: tuple[int, int] = (40, 30), mode: str = "RGB", **options: object) -> bytes:
    """A harmless image: the left half red, the right half blue."""
    image = Image.new("RGB", size, (200, 0, 0))
    image.paste((0, 0, 200), (size[0] // 2, 0, *size))
    buffer = io.BytesIO()
    image.convert(mode).save(buffer, format=image_format, **options)
    return buffer.getvalue()


def wave(seconds: float = 0.2) -> bytes:
    """Silence, as WAV."""
    samples = bytes(2 * int(8000 * seconds))
    form = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16_000, 2, 16)
    body = b"WAVEfmt " + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, *chunks: bytes, depth: int = 8, colours: int = 2, rows: int = 0) -> bytes:
    """A PNG that says it is so large, with these chunks before the picture, which ends after so many black rows."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colours]
    row = bytes(1 + (width * channels * depth + 7) // 8)
    packer = zlib.compressobj(9, strategy=zlib.Z_RLE)
    data = b"".join(packer.compress(row) for _ in range(rows)) + packer.flush()
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")


def text_bomb(chunks: int = 300) -> bytes:
    """Texts that unpack to a megabyte each, as a bomb in a picture."""
    text = zlib.compress(bytes([65]) * 1_040_000, 9)
    return png(40, 30, *(png_chunk(b"zTXt", b"k%d\0\0" % n + text) for n in range(chunks)), rows=30)


def chunk_flood(chunks: int = 200_000) -> bytes:
    """Empty chunks before the picture."""
    return png(40, 30, png_chunk(b"tEXt", b"a\0b") * chunks, rows=30)


def profile_bomb() -> bytes:
    """A colour profile that unpacks to 100 MB."""
    packer = zlib.compressobj(9, strategy=zlib.Z_RLE)
    packed = b"".join(packer.compress(bytes(1_000_000)) for _ in range(100)) + packer.flush()
    return png(40, 30, png_chunk(b"iCCP", b"p\0\0" + packed), rows=30)


def gif(width: int, height: int, frames: int = 1, comment: bytes = b"") -> bytes:
    """A GIF whose frames have one pixel each."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\xff\xff\xff\0\0\0"
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    said = b"\x21\xfe" + bytes([len(comment)]) + comment + b"\0" if comment else b""
    return head + said + frame * frames + b"\x3b"


def gif_script() -> bytes:
    """A GIF, and a script: its width, 10,799, opens a comment that ends behind the picture."""
    return b"GIF89a" + b"/*" + gif(1, 1)[8:] + b"*/=1;" + SCRIPT.encode()


def jpeg_html() -> bytes:
    """A JPEG with a page in its comment, and another one behind the picture."""
    page = HTML.encode()
    whole = picture("JPEG")
    comment = b"\xff\xfe" + struct.pack(">H", len(page) + 2) + page
    return whole[:2] + comment + whole[2:] + page


def jpeg_script() -> bytes:
    """A JPEG whose first segment is as long as a comment's beginning says: in Latin-1 a script."""
    script = b"*/=1;" + SCRIPT.encode() + b"/*"
    padding = bytes(0x2F2A - 2 - len(script))
    whole = picture("JPEG")
    return whole[:2] + b"\xff\xe0/*" + padding + script + whole[2:] + b"*/"


def bmp_skipping() -> bytes:
    """A BMP of one row and fifty million pixels whose run lengths skip 255 rows."""
    head = b"BM" + struct.pack("<IHHI", 1078 + 20, 0, 0, 1078)
    info = struct.pack("<IiiHHIIiiII", 40, 50_000_000, 1, 1, 8, 1, 20, 0, 0, 256, 0)
    return head + info + bytes(1024) + b"\x00\x02\xff\xff" * 4 + b"\x00\x01"


def tiff_tile(side: int = 20_000, tile: int = 30_000) -> bytes:
    """A small TIFF with one large tile, packed well."""
    packer = zlib.compressobj(9, strategy=zlib.Z_RLE)
    data = b"".join(packer.compress(bytes(tile)) for _ in range(tile // 10)) + packer.flush()
    entries = [
        *((256, 3, 1, min(side, 64)), (257, 3, 1, min(side, 64)), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1)),
        *((277, 3, 1, 1), (322, 4, 1, tile), (323, 4, 1, tile), (324, 4, 1, 8), (325, 4, 1, len(data))),
    ]
    directory = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<I", 8 + len(data)) + data + directory + bytes(4)


def webp_canvas() -> bytes:
    """A WebP of a few bytes whose canvas is the largest there can be."""
    canvas = b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + b"\xfe\x3f\0" * 2
    animation = b"ANIM" + struct.pack("<I", 6) + bytes(6)
    body = b"WEBP" + canvas + animation + _webp_frame()
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _webp_frame() -> bytes:
    inner = picture("WEBP", lossless=True)[12:]
    frame = bytes(6) + struct.pack("<I", 39)[:3] + struct.pack("<I", 29)[:3] + b"\x64\0\0\0" + inner
    return b"ANMF" + struct.pack("<I", len(frame)) + frame


PICTURES = {
    "a.avif": picture("AVIF"),
    "a.bmp": picture("BMP"),
    "a.gif": picture("GIF"),
    "a.ico": picture("ICO", sizes=[(16, 16)]),
    "a.jpeg": picture("JPEG"),
    "a.jp2": picture("JPEG2000"),
    "a.png": picture("PNG"),
    "a.tiff": picture("TIFF"),
    "a.webp": picture("WEBP"),
}
"""One of each format that is read."""

RUNNING = {
    "page.html": HTML.encode(),
    "page with a mark.html": b"\xef\xbb\xbf" + HTML.encode(),
    "page in UTF-16.html": HTML.encode("utf-16"),
    "page behind a comment.html": b"<!-- nothing -->\n" + HTML.encode(),
    "page behind text.txt": b"Hello " + HTML.encode(),
    "page in UTF-7.txt": HTML.replace("<", "+ADw-").replace(">", "+AD4-").encode(),
    "page.xhtml": XHTML.encode(),
    "page.mhtml": MHTML.encode(),
    "page.gz": gzip.compress(HTML.encode(), mtime=0),
    "transformed.xml": XSLT.encode(),
    "drawing.svg": SVG.encode(),
    "drawing behind a prologue.svg": b'<?xml version="1.0"?><!-- a --><!DOCTYPE svg [<!ENTITY a "b">]>' + SVG.encode(),
    "drawing in UTF-16.svg": SVG.encode("utf-16"),
    "script.js": SCRIPT.encode(),
    "module.js": b"export const ran = 1;" + SCRIPT.encode(),
    "styles.css": b"@import '/ran'; body { background: url(/ran) }",
    "script in a GIF.gif": gif_script(),
    "page in a JPEG.jpeg": jpeg_html(),
    "script in a JPEG.jpeg": jpeg_script(),
    "page in a PNG.png": png(40, 30, png_chunk(b"tEXt", b"Comment\0" + HTML.encode()), rows=30),
    "document.pdf": b"%PDF-1.4\n1 0 obj<</OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\n%%EOF",
}
"""Files that some browser would run under the content type of their origin."""

BOMBS = {
    "large header.png": png(50_000, 50_000),
    "large header.gif": gif(60_000, 60_000),
    "large header.bmp": bmp_skipping(),
    "large canvas.webp": webp_canvas(),
    "many frames.gif": gif(40, 30, frames=100_000),
    "texts.png": text_bomb(),
    "chunks.png": chunk_flood(),
    "profile.png": profile_bomb(),
    "tile.tiff": tiff_tile(),
}
"""Files that cost a careless reader much memory or time."""

CUT_SHORT = {f"cut short.{name[2:]}": body[: len(body) * 2 // 3] for name, body in PICTURES.items()}
