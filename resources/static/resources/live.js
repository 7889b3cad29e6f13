// Asks each visible layer's TileJSON whether its data changed, while somebody looks at the page.

const POLL_SECONDS = 5;
const LIMIT_SECONDS = 10;

export class Live {
  constructor(entries, gone, changed = () => {}) {
    this.entries = entries; // {slug, layer, tilejson}
    this.gone = gone; // called with the slug of a layer that is no more
    this.changed = changed; // called with the slug of a layer whose TileJSON is another
    this.known = new Map();
  }

  start() {
    setInterval(() => document.hidden || this.poll(), POLL_SECONDS * 1000);
    document.addEventListener("visibilitychange", () => document.hidden || this.poll());
    this.poll();
  }

  async poll() {
    const shown = this.entries.filter(({ layer }) => layer._map);
    await Promise.allSettled(shown.map((entry) => this.compare(entry)));
  }

  /** Refreshes a layer whose TileJSON is another one than before: it carries the data's version. */
  async compare(entry) {
    const { slug, layer, tilejson } = entry;
    const signal = AbortSignal.timeout(LIMIT_SECONDS * 1000);
    const response = await fetch(tilejson, { signal, cache: "no-cache" });
    if (response.status === 404 && this.entries.includes(entry)) {
      this.entries = this.entries.filter((other) => other !== entry);
      this.gone(slug);
    }
    if (!response.ok) return; // the server is busy or away: the next poll will tell
    const text = await response.text();
    const before = this.known.get(tilejson);
    this.known.set(tilejson, text);
    if (before === undefined || before === text) return;
    await Promise.allSettled([layer.refresh(), this.changed(slug)]);
  }
}
