// A tile layer that waits for cold tiles, retries, and swaps in refreshed tiles without flicker.

import { connections, patience } from "./connections.js";

const TRY_AGAIN = new Set([0, 429, 500, 502, 503, 504]);
const MOST_ATTEMPTS = 9;
const FIRST_PAUSE_SECONDS = 1;
const LONGEST_PAUSE_SECONDS = 20;
const REQUEST_LIMIT_SECONDS = 90; // more than two waits of the waiting instance
const STALE_PAUSE_SECONDS = 1;
const HOT_LOOKS = 4; // within the hot window, in which the front may still have the older tile
const REFRESH_ROUNDS = 10;
const REFRESH_AT_ONCE = 4;

/** Seconds before the next attempt: the server's Retry-After, or doubling, with jitter. */
export function pauseSeconds(attempt, retryAfter) {
  const doubling = FIRST_PAUSE_SECONDS * 2 ** attempt;
  const asked = Number.parseFloat(retryAfter ?? "");
  const pause = Math.max(Number.isFinite(asked) ? asked : 0, doubling * (0.5 + Math.random() / 2));
  return Math.min(pause, LONGEST_PAUSE_SECONDS);
}

function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  });
}

/** One request. Answers {status, headers, body}. */
async function request(url, options, signal) {
  const limit = AbortSignal.timeout(REQUEST_LIMIT_SECONDS * 1000);
  const response = await fetch(url, { ...options, signal: AbortSignal.any([signal, limit]) });
  return { status: response.status, headers: response.headers, body: await response.blob() };
}

/**
 * Asks without a wait first, so that cached tiles come at once. Then it waits, if a connection for waiting is free;
 * else it asks again when the tile is expected, so that slow tiles do not hold up quick ones.
 * Status 0: the network failed.
 */
async function ask(url, cache, signal) {
  const send = (headers) => connections.pass(signal, () => request(url, { cache, headers }, signal));
  try {
    for (;;) {
      const answer = await send({ Prefer: "respond-async" });
      if (answer.status !== 202) return answer;
      if (patience.free > 0) return await patience.pass(signal, () => send({}));
      await sleep(pauseSeconds(0, answer.headers.get("Retry-After")), signal);
    }
  } catch (error) {
    if (signal.aborted) throw error;
    return { status: 0, headers: new Headers(), body: null };
  }
}

/** Shows an answer's bytes in an <img>, decoded beforehand, without flicker. */
async function show(image, body) {
  const address = URL.createObjectURL(body);
  try {
    const decoded = new Image();
    decoded.src = address;
    await decoded.decode();
    image.src = address;
    await image.decode();
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** Seconds until the next request for an answer that may be older than the change, or 0. */
function secondsUntilNewer(headers, mayBeOlder, hotSeconds) {
  const timing = headers.get("Server-Timing") ?? "";
  const isHot = !timing.includes("front;") || /front;desc="?(UPDATING|STALE)/.test(timing);
  if (isHot) return mayBeOlder ? hotSeconds / HOT_LOOKS : 0;
  return /tarry;desc="?stale/.test(timing) ? STALE_PAUSE_SECONDS : 0;
}

export const TarryLayer = L.GridLayer.extend({
  options: { url: "", hotSeconds: 5, updateWhenIdle: false, keepBuffer: 1 },

  initialize(options) {
    L.setOptions(this, options);
    this.states = new WeakMap(); // <img> -> {url, coords, etag, abort, touchedAt, renewal}
    this.waiting = new Set(); // <img>s to request again
    this.asking = 0;
    this.on("tileunload", (event) => this.leave(event.tile));
  },

  createTile(coords, done) {
    const image = document.createElement("img");
    image.alt = "";
    const scale = L.Browser.retina ? "@2x" : "";
    const url = L.Util.template(this.options.url, { z: coords.z, x: coords.x, y: coords.y, r: scale });
    const state = { url, coords, etag: null, abort: new AbortController(), touchedAt: -Infinity, renewal: null };
    this.states.set(image, state);
    this.fill(image, state).then(
      () => done(null, image),
      (error) => state.abort.signal.aborted || done(error, image),
    );
    return image;
  },

  /** Asks until there is a picture, with growing pauses. Gives up if the tile does not exist. */
  async fill(image, state) {
    const signal = state.abort.signal;
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt += 1) {
      const { status, headers, body } = await ask(state.url, "default", signal);
      if (status === 200) {
        state.etag = headers.get("ETag");
        this.renewLater(image, secondsUntilNewer(headers, this.wasTouched(state), this.options.hotSeconds), signal, 0);
        return show(image, body);
      }
      if (!TRY_AGAIN.has(status)) break;
      await sleep(pauseSeconds(attempt, headers.get("Retry-After")), signal);
    }
    throw new Error(`no tile at ${state.url}`);
  },

  /** Requests the tiles that a change touched again, one at a time, and marks them as stale until then. */
  refresh(touched) {
    for (const { el, loaded, current } of Object.values(this._tiles)) {
      const state = this.states.get(el);
      if (!state || !touched(state.coords)) continue;
      state.touchedAt = performance.now(); // a tile that is loading is requested again afterwards
      if (!loaded || !current) continue;
      state.renewal?.abort();
      state.renewal = new AbortController();
      el.classList.add("stale");
      this.waiting.add(el);
    }
    this.fire("freshness");
    while (this.asking < REFRESH_AT_ONCE && this.waiting.size) this.work();
  },

  /** Renews one tile after the other until none waits. */
  async work() {
    this.asking += 1;
    for (const image of this.waiting) {
      this.waiting.delete(image);
      const { abort, renewal } = this.states.get(image);
      await this.renew(image, AbortSignal.any([abort.signal, renewal.signal]), 0).catch(() => {}); // out of sight
    }
    this.asking -= 1;
  },

  async renew(image, signal, round) {
    const state = this.states.get(image);
    const { status, headers, body } = await ask(state.url, "no-cache", signal);
    let seconds = STALE_PAUSE_SECONDS;
    if (status === 200) {
      const etag = headers.get("ETag");
      const unchanged = etag !== null && etag === state.etag;
      if (!unchanged) {
        await show(image, body);
        state.etag = etag;
      }
      seconds = secondsUntilNewer(headers, unchanged && this.wasTouched(state), this.options.hotSeconds);
    }
    if (!seconds || round + 1 >= REFRESH_ROUNDS) this.settle(image);
    this.renewLater(image, seconds, signal, round + 1);
  },

  renewLater(image, seconds, signal, round) {
    if (!seconds || round >= REFRESH_ROUNDS) return;
    sleep(seconds, signal)
      .then(() => this.renew(image, signal, round))
      .catch(() => {}); // out of sight, or a newer change took over
  },

  /** True if a change touched the tile within the hot window: the front may still have the older one. */
  wasTouched({ touchedAt }) {
    return performance.now() - touchedAt < (this.options.hotSeconds + 1) * 1000;
  },

  /** Counts the stale tiles. */
  staleTiles() {
    return Object.values(this._tiles ?? {}).filter(({ el }) => el.classList.contains("stale")).length;
  },

  settle(image) {
    if (!image.classList.contains("stale")) return;
    image.classList.remove("stale");
    this.fire("freshness");
  },

  leave(image) {
    this.states.get(image)?.abort.abort();
    this.waiting.delete(image);
    this.settle(image);
  },

  // Leaflet calls this when the zoom changes; requests for the old zoom are aborted.
  _abortLoading() {
    for (const [key, tile] of Object.entries(this._tiles)) {
      if (tile.coords.z !== this._tileZoom && !tile.loaded) {
        this.states.get(tile.el)?.abort.abort();
        tile.el.remove();
        delete this._tiles[key];
      }
    }
  },
});
