// The panel of tile answers: counts, a strip of the last tiles, one sentence.

import { KINDS } from "./tile_watcher.js";

const STRIP_TILES = 48;
const SLOWEST_DRAWN_MS = 500;
const ANNOUNCE_SECONDS = 4;
const SVG = "http://www.w3.org/2000/svg";

export function milliseconds(value) {
  return value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${Math.max(1, Math.round(value))} ms`;
}

/** A wait costs two redirects, and each further wait one more. With `internal` delivery there are none. */
export function redirectsOf(answer, waitSeconds) {
  return answer.redirected ? 2 + Math.floor(answer.waited / 1000 / waitSeconds) : 0;
}

export function sentenceOf(answer, waitSeconds) {
  const painted = answer.painted ? `, prepared in ${milliseconds(answer.painted)}` : "";
  const redirects = redirectsOf(answer, waitSeconds);
  return `waited ${milliseconds(answer.waited)}${painted}, ${redirects} redirects`;
}

export class Panel {
  constructor(root, waitSeconds) {
    this.root = root;
    this.waitSeconds = waitSeconds;
    this.counts = Object.fromEntries(KINDS.map((kind) => [kind, 0]));
    this.strip = root.querySelector("[data-strip]");
    this.last = root.querySelector("[data-last]");
    this.stale = root.querySelector("[data-stale]");
    this.announcement = root.querySelector("[data-announcement]");
    this.pending = null;
    this.drawing = 0;
    this.recent = [];
  }

  add(answer) {
    if (!(answer.kind in this.counts)) return;
    this.counts[answer.kind] += 1;
    this.recent = [...this.recent, answer].slice(-STRIP_TILES);
    if (answer.kind === "waited") this.explain(answer);
    this.drawing ||= requestAnimationFrame(() => this.draw());
  }

  explain(answer) {
    this.last.textContent = `The last cold tile ${sentenceOf(answer, this.waitSeconds)}.`;
    this.pending ??= setTimeout(() => this.announce(), ANNOUNCE_SECONDS * 1000);
  }

  /** Shows the number of stale tiles in sight. */
  tellStale(layers) {
    const stale = [...layers].reduce((sum, layer) => sum + layer.staleTiles(), 0);
    const tiles = stale === 1 ? "1 tile in sight is" : `${stale} tiles in sight are`;
    this.stale.textContent = stale ? `${tiles} stale, being refreshed.` : "";
  }

  /** Announces the counts to screen readers, at intervals and not for each tile. */
  announce() {
    this.pending = null;
    const { waited, failed } = this.counts;
    this.announcement.textContent = `${waited} tiles waited for, ${failed} failed. ${this.last.textContent}`;
  }

  draw() {
    this.drawing = 0;
    const most = Math.max(1, ...Object.values(this.counts));
    for (const kind of KINDS) {
      const row = this.root.querySelector(`[data-kind="${kind}"]`);
      row.querySelector("[data-count]").textContent = this.counts[kind].toLocaleString("en");
      row.style.setProperty("--share", this.counts[kind] / most);
    }
    this.strip.replaceChildren(...this.recent.map((answer, index) => this.bar(answer, index)));
  }

  bar(answer, index) {
    const height = 2 + 28 * Math.sqrt(Math.min(1, answer.total / SLOWEST_DRAWN_MS));
    const bar = document.createElementNS(SVG, "rect");
    bar.setAttribute("x", index * 5);
    bar.setAttribute("y", 30 - height);
    bar.setAttribute("width", 4);
    bar.setAttribute("height", height);
    bar.setAttribute("class", `is-${answer.kind}`);
    return bar;
  }
}
