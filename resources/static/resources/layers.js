// Map layers, built from the server's descriptions.

import { TarryLayer } from "./tiles.js";

const DEEPEST_ZOOM = 18; // deeper only where a layer goes deeper
const WORLD_DEGREES = 340;

function boundsOf([west, south, east, north]) {
  return L.latLngBounds([south, west], [north, east]);
}

/** Bounds outside which no tiles are requested. A layer that spans the world has none, so that its copies show. */
export function limitsOf([west, south, east, north]) {
  const partOfTheWorld = west < east && east - west < WORLD_DEGREES;
  return partOfTheWorld ? boundsOf([west, south, east, north]) : undefined;
}

export function deepestZoomOf(described) {
  return Math.max(DEEPEST_ZOOM, ...described.map((it) => it.max_zoom));
}

/** The panes that the dark style sheet changes. */
export function createPanes(map) {
  map.createPane("base").style.zIndex = 200;
  map.createPane("overlays").style.zIndex = 300;
}

function layerFrom(described, hotSeconds, deepestZoom) {
  return new TarryLayer({
    url: described.url,
    pane: described.base ? "base" : "overlays",
    zIndex: described.order,
    bounds: limitsOf(described.bounds),
    minZoom: described.min_zoom,
    maxZoom: deepestZoom,
    maxNativeZoom: described.max_zoom,
    hotSeconds,
  });
}

/** The page's layers, by name. */
export function layersFrom({ layers, hot_seconds: hotSeconds }, deepestZoom) {
  return new Map(layers.map((it) => [it.slug, layerFrom(it, hotSeconds, deepestZoom)]));
}

/** Attributions and their limits, for Credits. */
export function credited({ layers: described }, layers) {
  return described.map((it) => ({ layer: layers.get(it.slug), limits: limitsOf(it.bounds), text: it.attribution }));
}
