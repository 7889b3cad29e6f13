// Tells from the browser's own resource timing how each tile was answered. Changes nothing.

export const KINDS = ["browser", "hot", "cache", "stale", "waited", "failed"];

/** The value of a Server-Timing metric: its description, else its duration in milliseconds. */
function metric(entry, name) {
  const found = (entry.serverTiming ?? []).find((timing) => timing.name === name);
  return found && (found.description || found.duration);
}

/** Which of KINDS answered; null when the request was given up, or there is no such tile. */
export function kindOf(entry) {
  if (entry.responseStatus >= 500 || entry.responseStatus === 429) return "failed";
  if (entry.responseStatus >= 400) return null;
  if (!entry.responseEnd || entry.responseStatus === 0) return null;
  if (entry.redirectEnd > entry.redirectStart) return "waited";
  if (entry.transferSize === 0 && entry.encodedBodySize > 0) return "browser";
  if (/HIT|UPDATING|STALE|REVALIDATED/.test(metric(entry, "front") ?? "")) return "hot";
  return metric(entry, "tarry") === "stale" ? "stale" : "cache";
}

/** What the panel needs to know about one answered tile. Times in milliseconds. */
export function answerOf(entry) {
  return {
    kind: kindOf(entry),
    layer: new URL(entry.name).pathname.split("/")[2],
    total: entry.duration,
    waited: entry.redirectEnd - entry.redirectStart,
    painted: Number(metric(entry, "prepare")) || null,
  };
}

/** Calls back with each answer for a tile, those from before the page's scripts ran included. */
export function watchTiles(report) {
  const tile = /\/tiles\/[^/]+\/\d+\/\d+\/\d+(@2x)?\.(png|webp)(\?|$)/;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (tile.test(entry.name)) report(answerOf(entry));
    }
  });
  observer.observe({ type: "resource", buffered: true });
  // The buffer of entries is small by default; once full, nothing is kept, and nothing is needed.
  performance.addEventListener("resourcetimingbufferfull", () => performance.clearResourceTimings());
}
