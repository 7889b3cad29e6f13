// Follows changes of the layers while the page is visible. One answer covers all layers, and the front keeps it
// for a second, for all open pages.

import { everyTile, touchedSince } from "./touched.js";

const POLL_SECONDS = 2;
const LIMIT_SECONDS = 10;
const RENEWAL_SECONDS = 0.5; // the front has a newer copy then
const COPY_SECONDS = 1.9; // two newest answers that far apart are not the same copy of the front

/** The layers in the change feed, and whether the front is renewing this copy. Undefined without an answer. */
async function read(address) {
  const signal = AbortSignal.timeout(LIMIT_SECONDS * 1000);
  const response = await fetch(address, { signal, cache: "no-cache" }).catch(() => undefined);
  if (!response?.ok) return undefined;
  const isOlder = /front;desc="?(STALE|UPDATING)/.test(response.headers.get("Server-Timing") ?? "");
  return { told: (await response.json()).layers, isOlder };
}

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
    this.isAsking = false;
    this.nextNames = 0; // when names are compared again, in milliseconds since the page began
    this.versions = new Map(described.map(({ slug, version }) => [slug, version]));
  }

  start() {
    setInterval(() => this.look(), POLL_SECONDS * 1000);
    document.addEventListener("visibilitychange", () => this.look());
    this.look();
  }

  /** Reads the changes, and again where the front is renewing its copy. */
  async look() {
    const isOlder = await this.poll();
    if (isOlder) setTimeout(() => this.poll(), RENEWAL_SECONDS * 1000);
  }

  /**
   * Reads the changes once, unless they are being read or nobody looks. Without an answer the next look reads them.
   * True if the answer was a copy that the front is renewing.
   */
  async poll() {
    if (this.isAsking || document.hidden) return false;
    this.isAsking = true;
    const answer = await read(this.address).catch(() => undefined);
    this.isAsking = false;
    if (!answer) return false;
    if (!answer.isOlder && performance.now() >= this.nextNames) this.compareNames(answer.told);
    for (const [slug, layer] of this.layers) if (answer.told[slug]) this.compare(slug, layer, answer.told[slug]);
    return answer.isOlder;
  }

  /** Believes that a layer is gone, or new, once two answers in a row say so that are not the same copy. */
  compareNames(told) {
    this.nextNames = performance.now() + COPY_SECONDS * 1000;
    const gone = [...this.layers.keys()].filter((slug) => !told[slug]);
    const others = Object.keys(told).filter((slug) => !this.mine.has(slug));
    for (const slug of gone.filter((each) => this.doubted.has(each))) {
      this.layers.delete(slug);
      this.callbacks.gone(slug);
    }
    if (others.some((slug) => this.doubted.has(slug))) this.callbacks.others();
    this.doubted = new Set([...gone, ...others]);
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
