"""Audio, video and other images by their containers' signatures: no more than the head. PURE.

What puremagic knows too, it knows by fewer bytes, or by several types at once.
"""

from collections.abc import Mapping

_BRANDS: Mapping[bytes, str] = {  # ISO base media file format, https://mp4ra.org/registered-types/brands
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"M4A ", b"M4B ", b"M4P ", b"F4A ", b"F4B "), "audio/mp4"),
    b"crx ": "image/x-canon-cr3",
    b"qt  ": "video/quicktime",
}
_DOCTYPES = {b"webm": "video/webm", b"matroska": "video/x-matroska"}  # RFC 8794, 11.2.4
_RIFF = {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo", b"WEBP": "image/webp"}
_OGG = {  # RFC 5334 and what each codec's mapping begins with
    b"\x80theora": "video/ogg",
    b"OpusHead": "audio/ogg",
    b"\x01vorbis": "audio/ogg",
    b"\x7fFLAC": "audio/ogg",
    b"Speex   ": "audio/ogg",
}
_PLAIN = {
    b"fLaC": "audio/flac",
    b"ID3": "audio/mpeg",
    b"FLV\x01": "video/x-flv",
    b"\x00\x00\x01\xba": "video/mpeg",
    b"\x00\x00\x01\xb3": "video/mpeg",
    b"#!AMR": "audio/amr",
    b"\xff\x0a": "image/jxl",
    b"\x00\x00\x00\x0cJXL \r\n\x87\n": "image/jxl",
}
_BITRATES = {  # of layer III in kbit/s: MPEG-1, and MPEG-2 and 2.5 (ISO 11172-3, 13818-3)
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_PACKET_BYTES = 188


def media_type(head: bytes) -> str | None:
    """The type, None for what is no container of audio or video, nor an image that is only recognised."""
    if head[4:8] == b"ftyp":
        return _branded(head[8:12])
    if head.startswith(b"\x1aE\xdf\xa3"):
        return _matroska(head[:64])
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12])
    if head.startswith(b"OggS"):
        return next((kind for mark, kind in _OGG.items() if head.startswith(mark, 28)), None)
    plain = next((kind for mark, kind in _PLAIN.items() if head.startswith(mark)), None)
    if plain:
        return plain
    if _is_transport_stream(head):
        return "video/mp2t"
    return "audio/mpeg" if _is_layer_three(head) else None


def _branded(brand: bytes) -> str:
    if brand.startswith((b"3gp", b"3g2")):
        return "video/3gpp" if brand.startswith(b"3gp") else "video/3gpp2"
    return _BRANDS.get(brand, "video/mp4")


def _matroska(head: bytes) -> str | None:
    place = head.find(b"\x42\x82")
    if place < 0 or place + 3 > len(head):
        return None
    length = head[place + 2] & 0x7F
    return _DOCTYPES.get(head[place + 3 : place + 3 + length].rstrip(b"\0"))


def _is_transport_stream(head: bytes) -> bool:
    return len(head) > 3 * _PACKET_BYTES and all(head[n * _PACKET_BYTES] == 0x47 for n in range(4))


def _is_layer_three(head: bytes) -> bool:
    """Whether MP3 begins here: a frame, and the next one where it ends."""
    length = _frame_bytes(head[:4])
    return length > 0 and _frame_bytes(head[length : length + 4]) > 0


def _frame_bytes(header: bytes) -> int:
    """The length of a frame with that header; 0 for what is none."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE6 != 0xE2:
        return 0
    version, bitrate, rate = header[1] >> 3 & 3, header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or bitrate in (0, 15) or rate == 3:
        return 0
    per_frame = 144_000 if version == 3 else 72_000
    return per_frame * _BITRATES[version == 3][bitrate] // _RATES[version][rate] + (header[2] >> 1 & 1)
