// Lets as many requests go at once as the browser has connections for. More would wait inside the
// browser, where nobody can tell their wait for a connection from the wait for the tile.

const HTTP1_CONNECTIONS = 6; // what browsers open to one host
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

  /** Runs an asynchronous action when its turn comes; not at all if given up before. */
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

/** Half of them may be held by requests that wait for their content: the other half is for what is there. */
export const patience = new Gate(requestsAtOnce() / 2);
