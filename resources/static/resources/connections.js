// Limits the requests in flight to the browser's connections per host. Inside the browser, the wait for a
// connection cannot be told from the wait for the tile.

const HTTP1_CONNECTIONS = 6; // per host, in all browsers
const MULTIPLEXED_REQUESTS = 24;

function requestsAtOnce() {
  const [navigation] = performance.getEntriesByType("navigation");
  return /^h[23]/.test(navigation?.nextHopProtocol ?? "") ? MULTIPLEXED_REQUESTS : HTTP1_CONNECTIONS;
}

class Gate {
  constructor(limit) {
    this.free = limit;
    this.waiting = [];
  }

  /** Runs an asynchronous action at its turn. An action that was aborted before does not run. */
  async pass(signal, action) {
    if (this.free > 0) this.free -= 1;
    else await new Promise((resolve) => this.waiting.push(resolve));
    try {
      signal.throwIfAborted();
      return await action();
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.free += 1;
    }
  }
}

export const connections = new Gate(requestsAtOnce());

/** Half of the connections may wait for cold tiles; the other half serves cached ones. */
export const patience = new Gate(requestsAtOnce() / 2);
