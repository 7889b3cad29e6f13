// Follows changes of the layers while the page is visible. One answer covers all layers, and the front keeps it
// for a second, for all open pages.

import { everyTile, touchedSince } from "./touched.js";

const POLL_SECONDS = 2;
const LIMIT_SECONDS = 10;

export class Live {
  /**
   * `layers` are those of the page, by their slugs, and as the page describes them. Calls back `gone` with the slug of a layer that is no more,
   * `changed` with that of one which is another now, and `others` once there are layers that the page never had.
   */
  constructor({ changes, layers: described }, layers, { gone, changed = () => {}, others = () => {} }) {
    this.address = changes;
    this.layers = new Map(layers);
    this.mine = new Set(layers.keys());
    this.callbacks = { gone, changed, others };
    this.doubted = new Set(); // layers whose last answer differed from the page: the front may have sent an older one
    this.versions = new Map(described.map(({ slug, version }) => [slug, version]));
  }

  start() {
    setInterval(() => document.hidden || this.poll(), POLL_SECONDS * 1000);
    document.addEventListener("visibilitychange", () => document.hidden || this.poll());
    this.poll();
  }

  /** Reads the changes once. Without an answer the next look reads them. */
  async poll() {
    const signal = AbortSignal.timeout(LIMIT_SECONDS * 1000);
    const response = await fetch(this.address, { signal, cache: "no-cache" }).catch(() => undefined);
    if (!response?.ok) return;
    const { layers: told } = await response.json();
    const gone = [...this.layers.keys()].filter((slug) => !told[slug]);
    const others = Object.keys(told).filter((slug) => !this.mine.has(slug));
    for (const slug of gone.filter((each) => this.doubted.has(each))) {
      this.layers.delete(slug);
      this.callbacks.gone(slug);
    }
    if (others.some((slug) => this.doubted.has(slug))) this.callbacks.others();
    this.doubted = new Set([...gone, ...others]);
    for (const [slug, layer] of this.layers) if (told[slug]) this.compare(slug, layer, told[slug]);
  }

  /** Refreshes the tiles that changed since the last look; a whole layer if the feed no longer reaches back so far. */
  compare(slug, layer, told) {
    const known = this.versions.get(slug);
    if (told.version <= known) return;
    this.versions.set(slug, told.version);
    const touched = known < told.since ? everyTile : touchedSince(told.changes, known);
    if (layer._map && touched) layer.refresh(touched);
    this.callbacks.changed(slug);
  }
}
