// Attributions of the layers in sight. Their texts are inserted as text; only addresses become links.

const ADDRESS = /(https?:\/\/[^\s<>"]*[^\s<>".,;:!?)\]])/;
const WORLD_TURNS = [-360, 0, 360];

function linkTo(address, text) {
  const link = document.createElement("a");
  link.href = address;
  link.rel = "noreferrer";
  link.textContent = text;
  return link;
}

/** A text as nodes. ADDRESS splits it; every other part is an address. */
function nodesOf(text) {
  const parts = text.split(ADDRESS).filter((part) => part !== "");
  return parts.map((part) => (ADDRESS.test(part) ? linkTo(part, part.replace(/^https?:\/\/(www\.)?/, "")) : part));
}

export const Credits = L.Control.extend({
  options: { position: "bottomright" },

  initialize(layers) {
    this.layers = layers; // {layer, limits, text}
  },

  onAdd(map) {
    this.map = map;
    this.holder = L.DomUtil.create("div", "leaflet-control-attribution");
    map.on("moveend layeradd layerremove", this.update, this);
    return this.holder;
  },

  update() {
    const seen = this.layers.filter((it) => it.text && this.isInSight(it));
    const texts = [...new Set(seen.map((it) => it.text))];
    const leaflet = linkTo("https://leafletjs.com", "Leaflet");
    this.holder.replaceChildren(leaflet, ...texts.flatMap((text) => [" | ", ...nodesOf(text)]));
  },

  isInSight({ layer, limits }) {
    if (!this.map.hasLayer(layer) || this.map.getZoom() < layer.options.minZoom) return false;
    if (!limits) return true;
    const view = this.map.getBounds();
    return WORLD_TURNS.some((turn) => {
      const south = [limits.getSouth(), limits.getWest() + turn];
      return view.intersects([south, [limits.getNorth(), limits.getEast() + turn]]);
    });
  },
});
