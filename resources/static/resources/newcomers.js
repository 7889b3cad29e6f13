// Looks now and then whether there are layers that this page does not have, while somebody looks at it.

const POLL_SECONDS = 20;
const LIMIT_SECONDS = 10;

export class Newcomers {
  constructor(address, isKnown, found) {
    this.address = address; // lists all layers
    this.isKnown = isKnown; // whether the page has the layer of a slug
    this.found = found; // called once
  }

  start() {
    this.timer = setInterval(() => document.hidden || this.look(), POLL_SECONDS * 1000);
  }

  async look() {
    const signal = AbortSignal.timeout(LIMIT_SECONDS * 1000);
    const response = await fetch(this.address, { signal }).catch(() => undefined);
    if (!response?.ok) return; // the server is busy or away: the next look will tell
    const { layers } = await response.json();
    if (!this.timer || layers.every(({ slug }) => this.isKnown(slug))) return;
    clearInterval(this.timer);
    this.timer = undefined;
    this.found();
  }
}
