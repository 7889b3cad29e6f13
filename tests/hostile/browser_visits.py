"""Hostile files in a browser: a page that tries them in every way, a watch over it, and a careless site."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote, unquote, urlsplit

from playwright.sync_api import BrowserContext, Dialog, Error, Page, Request

CARELESS = {
    "html": "text/html",
    "xhtml": "application/xhtml+xml",
    "xml": "text/xml",
    "svg": "image/svg+xml",
    "js": "text/javascript",
    "gif": "text/javascript",
    "css": "text/css",
    "jpeg": "text/html",
    "txt": "text/html",
}
"""The content types by which the makers of the files would serve them."""
COOKIE = "session=secret"

TRY = """async (addresses) => {
  const added = (name, fields) => {
    const element = Object.assign(document.createElement(name), fields);
    return new Promise((resolve) => {
      element.onload = element.onerror = element.onloadeddata = resolve;
      document.body.append(element);
      setTimeout(resolve, 1500);
    });
  };
  const tried = (start) => { try { return Promise.resolve(start()).catch(() => {}); } catch { return null; } };
  await Promise.all(addresses.flatMap((address) => [
    added("script", { src: address }),
    added("script", { src: address, charset: "iso-8859-1" }),
    added("script", { src: address, type: "module" }),
    added("iframe", { src: address }),
    added("img", { src: address }),
    added("object", { data: address }),
    added("object", { data: address, type: "text/html" }),
    added("embed", { src: address }),
    added("link", { rel: "stylesheet", href: address }),
    added("video", { src: address }),
    tried(() => import(address)),
    tried(() => new Worker(address)),
  ]));
}"""
"""Loads each address in every way that a page has. Ways that tell nothing of their end have a second and a half."""

WIDTHS = """async (addresses) => {
  const width = async (address) => {
    const image = Object.assign(new Image(), { src: address });
    await image.decode();
    return image.naturalWidth;
  };
  const found = Object.entries(addresses).map(async ([name, address]) => [name, await width(address)]);
  return Object.fromEntries(await Promise.all(found));
}"""
"""The widths of images by their names. Fails for one that does not show."""


@dataclass
class Watch:
    """Steps of a browser that no file may cause."""

    ran: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        context.on("request", self._request)
        context.on("dialog", self._dialog)

    def look(self, page: Page) -> None:
        """The value of the page's own globals."""
        if page.evaluate("() => 'ran' in globalThis"):
            self.ran.append(f"a script in {page.url}")

    def _request(self, request: Request) -> None:
        if urlsplit(request.url).path == "/ran":
            self.ran.append(f"a request: {request.url}")

    def _dialog(self, dialog: Dialog) -> None:
        self.ran.append(f"a dialog: {dialog.message}")
        dialog.dismiss()


def visit(page: Page, address: str) -> str | None:
    """Goes there; the cookies that a script would find, None where it could ask for none: downloads and sandboxes."""
    try:
        page.goto(address)
        return str(page.evaluate("() => document.cookie"))
    except Error:
        return None


@contextmanager
def careless(files: Mapping[str, bytes]) -> Iterator[str]:
    """A site that serves each file under its name as its maker would like. At `/` a page with a cookie."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = unquote(self.path[1:])
            if name in files:
                self.answer({"Content-Type": CARELESS[name.rpartition(".")[2]]}, files[name])
            else:
                self.answer(
                    {"Content-Type": "text/html", "Set-Cookie": COOKIE}, b"<!doctype html><title>A page</title>"
                )

        def answer(self, fields: Mapping[str, str], body: bytes) -> None:
            self.send_response(200)
            for field_name, value in fields.items():
                self.send_header(field_name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def named(site: str, name: str) -> str:
    return f"{site}/{quote(name)}"
