"""Types of bytes, and sizes of images."""

import gzip
import io
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from project.paths import BASE_DIR
from resources.management.commands.fetch import MAX_TASK_THREADS
from resources.mirror.media import image_files, sniff
from resources.mirror.media.sniff import UNKNOWN_TYPE, MediaKind, recognise_content
from tests.hostile import files

FTYP = b"\0\0\0\x18ftyp%s\0\0\0\0isom"
EBML = b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08\x42\x82%c%s"
OGG = b"OggS\0\x02" + bytes(20) + b"\x01\x13"
SEGMENT = b"\xff\xe1" + struct.pack(">H", 65_535) + bytes(65_533)
MP3_FRAME = b"\xff\xfb\x90\x64" + bytes(413)


@pytest.mark.parametrize("name", files.PICTURES)
def test_an_image_of_each_format_has_its_type_and_its_size(name: str) -> None:
    ending = name.removeprefix("a.")
    size = (16, 12) if ending == "ico" else (40, 30)

    assert recognise_content(files.PICTURES[name]) == MediaKind(
        {"ico": "image/x-icon"}.get(ending, f"image/{ending}"), *size
    )


def test_a_file_is_recognised_like_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(files.PICTURES["a.webp"])

    assert recognise_content(path) == MediaKind("image/webp", 40, 30)


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("video/mp4", FTYP % b"isom"),
        ("video/mp4", FTYP % b"iso5"),
        ("video/3gpp", FTYP % b"3gp4"),
        ("audio/mp4", FTYP % b"M4A "),
        ("video/quicktime", FTYP % b"qt  "),
        ("image/heic", FTYP % b"heic"),
        ("video/webm", EBML % (0x84, b"webm")),
        ("video/x-matroska", EBML % (0x88, b"matroska")),
        ("audio/ogg", OGG + b"OpusHead"),
        ("audio/ogg", OGG + b"\x01vorbis"),
        ("video/ogg", OGG + b"\x80theora"),
        ("audio/wav", files.wave()),
        ("video/x-msvideo", b"RIFF\x24\0\0\0AVI LIST"),
        ("audio/flac", b"fLaC\0\0\0\x22"),
        ("audio/mpeg", b"ID3\x03\0\0\0\0\0\0"),
        ("audio/mpeg", 2 * MP3_FRAME),
        ("video/mp2t", 4 * (b"G" + bytes(187))),
        ("image/jxl", b"\0\0\0\x0cJXL \r\n\x87\n"),
        ("application/pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3"),
        ("application/zip", b"PK\x03\x04\x14\0\x06\0\x08\0"),
        ("application/x-gzip", gzip.compress(b"text", mtime=0)),
        ("font/woff2", b"wOF2\0\1\0\0" + bytes(40)),
        ("application/vnd.rar", b"Rar!\x1a\x07\x01\0"),
    ],
)
def test_containers_are_known_by_their_signatures(media_type: str, body: bytes) -> None:
    assert recognise_content(body) == MediaKind(media_type)


@pytest.mark.parametrize(
    ("media_type", "text"),
    [
        ("text/plain; charset=utf-8", b"Hello\r\n\tworld\n"),
        ("text/plain; charset=utf-8", "Grüße, 世界".encode()),
        ("text/plain; charset=utf-8", b"\xef\xbb\xbfHello"),
        ("text/plain; charset=utf-16le", "\ufeffHello".encode("utf-16le")),
        ("text/plain; charset=utf-16be", "\ufeffHello".encode("utf-16be")),
        ("text/plain", "Grüße".encode("latin-1")),
        ("text/plain; charset=utf-8", b"BMW is no bitmap"),
        ("text/plain; charset=utf-8", b"#!/usr/bin/python\nprint(1)"),
        ("text/plain; charset=utf-8", b"<someone@example.org> wrote: yes"),
        ("text/html", b"  \n<!doctype HTML><p>x"),
        ("text/html", b"<P>x"),
        ("image/svg+xml", b'<svg:svg xmlns:svg="http://www.w3.org/2000/svg"/>'),
        ("image/svg+xml", b"<!-- a --> <!-- b -->\n<svg>"),
        ("application/xml", b'<?xml version="1.0"?><rss version="2.0"></rss>'),
        ("application/xml", b'<feed xmlns="http://www.w3.org/2005/Atom"></feed>'),
    ],
)
def test_text_has_its_charset_and_markup_its_kind(media_type: str, text: bytes) -> None:
    assert recognise_content(text) == MediaKind(media_type)


@pytest.mark.parametrize(
    "body", [b"", b"\0\1\2\3", "no mark".encode("utf-16le"), b"text\0", b"\xff\xfb\x90\x64\0 once"]
)
def test_what_is_of_no_known_type_is_bytes(body: bytes) -> None:
    assert recognise_content(body) == MediaKind(UNKNOWN_TYPE)


def test_text_that_turns_out_as_bytes_at_its_end_is_no_text() -> None:
    assert recognise_content(b"text " * 40_000 + b"\0\1").media_type == UNKNOWN_TYPE


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_text_may_be_cut_within_a_character_wherever_reading_ends(before: str) -> None:
    assert recognise_content((before + "世" * 60_000).encode()).media_type == "text/plain; charset=utf-8"


@pytest.mark.parametrize("name", files.RUNNING)
def test_nothing_that_could_run_has_a_type_that_runs(name: str) -> None:
    found = recognise_content(files.RUNNING[name]).media_type

    assert found.partition(";")[0] in {"text/plain", "image/gif", "image/jpeg", "image/png"} | _DOWNLOADS


_DOWNLOADS = {
    *("text/html", "application/xhtml+xml", "application/xml", "image/svg+xml", "application/pdf"),
    "application/x-gzip",
}


@pytest.mark.parametrize("name", files.CUT_SHORT)
def test_an_image_that_is_cut_short_is_still_of_its_type(name: str) -> None:
    whole = recognise_content(files.PICTURES["a" + name.removeprefix("cut short")])
    found = recognise_content(files.CUT_SHORT[name])

    assert found.media_type == whole.media_type
    assert found in (whole, MediaKind(whole.media_type))


def test_the_size_of_a_bomb_is_read_from_its_header_if_it_can_be_noted() -> None:
    assert recognise_content(files.png(2**32 - 1, 1)) == MediaKind("image/png")
    assert recognise_content(files.BOMBS["large header.png"]) == MediaKind("image/png", 50_000, 50_000)
    assert recognise_content(files.BOMBS["large canvas.webp"]) == MediaKind("image/webp", 16_383, 16_383)


@pytest.mark.parametrize("name", ["texts.png", "chunks.png", "profile.png"])
def test_what_is_packed_before_the_picture_costs_the_image_its_size(name: str) -> None:
    assert recognise_content(files.BOMBS[name]) == MediaKind("image/png")


class Counting(io.BytesIO):
    """Counts its bytes read."""

    counted = 0

    def read(self, size: int | None = -1) -> bytes:
        taken = super().read(size)
        self.counted += len(taken)
        return taken


def test_no_more_of_a_file_is_read_than_agreed() -> None:
    body = b"\xff\xd8" + SEGMENT * 300
    file = Counting(body)
    assert sniff._recognise_file(file) == MediaKind("image/jpeg")
    assert file.counted < image_files.MAX_READ_BYTES + 2 * sniff.HEAD_BYTES < len(body)


MOST_BYTES = 512 * 1024 * 1024
PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import django

django.setup()
import resources.management.commands.fetch  # all that a fetcher has loaded
from resources.mirror.media.sniff import recognise_content

paths = [path for path in sorted(Path(sys.argv[1]).iterdir()) for _ in range({threads})]
with ThreadPoolExecutor({threads}) as threads:
    found = list(threads.map(recognise_content, paths))
assert len(found) == len(paths)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024)
"""

BOMBS = (files.BOMBS["texts.png"], files.BOMBS["profile.png"], b"\xff\xd8" + SEGMENT * 250)
"""Those that take the most memory before their picture."""


def test_as_many_bombs_as_there_are_threads_stay_within_half_a_gigabyte(tmp_path: Path) -> None:
    for number, body in enumerate(BOMBS):
        (tmp_path / str(number)).write_bytes(body)
    command = [sys.executable, "-c", PROGRAM.format(threads=MAX_TASK_THREADS), str(tmp_path)]
    done = subprocess.run(command, cwd=BASE_DIR, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MOST_BYTES


def test_files_without_the_beginning_of_any_signature_have_no_signature() -> None:
    for (start, end), signatures in sniff._SIGNATURES.items():
        for signature in signatures:
            data = (b"\0" * start + signature) if start >= 0 else signature + b"\0" * ((-start) - len(signature))
            assert data[start:end] == signature
            assert sniff._begins_any(data, sniff._BEGINNINGS), (start, signature)
