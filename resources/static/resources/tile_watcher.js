// Reads from the browser's resource timing how each tile was answered. Requests nothing.

const PUT_OFF = 202;

export const KINDS = ["browser", "hot", "cache", "stale", "waited", "failed"];

/** The value of a Server-Timing metric: its description, else its duration in milliseconds. */
function metric(entry, name) {
  const found = (entry.serverTiming ?? []).find((timing) => timing.name === name);
  return found && (found.description || found.duration);
}

/** The one of KINDS that answered; null if the request was aborted or put off, or the tile does not exist. */
export function kindOf(entry, putOff) {
  if (entry.responseStatus >= 500 || entry.responseStatus === 429) return "failed";
  if (entry.responseStatus >= 400) return null;
  if (!entry.responseEnd || entry.responseStatus === 0 || entry.responseStatus === PUT_OFF) return null;
  if (putOff || entry.redirectEnd > entry.redirectStart) return "waited";
  if (entry.transferSize === 0 && entry.encodedBodySize > 0) return "browser";
  const [front, tarry] = [metric(entry, "front"), metric(entry, "tarry")];
  if (tarry && (!front || /UPDATING|STALE|REVALIDATED/.test(front))) return "hot";
  return tarry === "stale" ? "stale" : "cache";
}

/** One answered tile, as the panel needs it. Times in milliseconds. */
export function answerOf(entry, putOff) {
  const redirected = entry.redirectEnd > entry.redirectStart;
  return {
    kind: kindOf(entry, putOff),
    layer: new URL(entry.name).pathname.split("/")[2],
    total: entry.duration,
    redirected,
    waited: redirected ? entry.redirectEnd - entry.redirectStart : entry.duration,
    painted: Number(metric(entry, "prepare")) || null,
  };
}

/** Calls back with each answer for a tile, also with answers from before the page's scripts ran. */
export function watchTiles(report) {
  const tile = /\/tiles\/[^/]+\/\d+\/\d+\/\d+(@2x)?\.\w+(\?|$)/;
  const putOff = new Set(); // addresses that were answered as being prepared
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries().filter(({ name }) => tile.test(name))) {
      report(answerOf(entry, putOff.delete(entry.name)));
      if (entry.responseStatus === PUT_OFF) putOff.add(entry.name);
    }
  });
  observer.observe({ type: "resource", buffered: true });
  // The browser's buffer of entries is small; once full it keeps no new ones, and old ones are not needed.
  performance.addEventListener("resourcetimingbufferfull", () => performance.clearResourceTimings());
}
