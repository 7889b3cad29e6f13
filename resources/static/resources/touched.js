// The tiles that changes touched, read from the change feed.

export const everyTile = () => true;

function addressesOf(zoom, places) {
  const addresses = [];
  for (let i = 0; i < places.length; i += 2) addresses.push(`${zoom}/${places[i]}/${places[i + 1]}`);
  return addresses;
}

/** Below the deepest zoom of the feed, a tile is touched if the tile that covers it is. */
function touchedBy({ deepest, zooms, below }) {
  const told = new Set(Object.entries(zooms).flatMap(([zoom, places]) => addressesOf(zoom, places)));
  const covering = new Set(addressesOf(deepest, below));
  return ({ z, x, y }) => {
    const up = 2 ** Math.max(0, z - deepest);
    return up === 1 ? told.has(`${z}/${x}/${y}`) : covering.has(`${deepest}/${Math.floor(x / up)}/${Math.floor(y / up)}`);
  };
}

/** A test of a tile: did changes after this version touch it? Undefined without changes. */
export function touchedSince(changes, version) {
  const each = changes.filter((change) => change.version > version).map(touchedBy);
  return each.length ? (coords) => each.some((touches) => touches(coords)) : undefined;
}
