// The view in the address: #zoom/latitude/longitude, and /without:slug,slug for hidden layers.

function decoded(hash) {
  try {
    return decodeURIComponent(hash.replace(/^#/, ""));
  } catch {
    return ""; // a percent sign that encodes nothing
  }
}

/** The view that an address names, or null. */
export function parse(hash) {
  const [zoom, latitude, longitude, ...rest] = decoded(hash).split("/");
  const numbers = [zoom, latitude, longitude].map((part) => Number.parseFloat(part));
  if (!numbers.every(Number.isFinite) || Math.abs(numbers[1]) > 90) return null;
  const without = rest.find((part) => part.startsWith("without:"))?.slice("without:".length) ?? "";
  return {
    zoom: numbers[0],
    centre: [numbers[1], numbers[2]],
    without: new Set(without.split(",").filter(Boolean)),
  };
}

export function format(zoom, centre, without) {
  const digits = Math.max(1, Math.ceil(zoom / 3));
  const view = `#${zoom}/${centre.lat.toFixed(digits)}/${centre.lng.toFixed(digits)}`;
  return without.length ? `${view}/without:${without.join(",")}` : view;
}
