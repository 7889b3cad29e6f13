// Puts the map together: layers from the page's data, the switches, the panel, the address.

import { Live } from "./live.js";
import { Panel } from "./panel.js";
import { format, parse } from "./permalink.js";
import { TarryLayer } from "./tiles.js";
import { watchTiles } from "./watching.js";

const DEEPEST_ZOOM = 18;
const WORLD_DEGREES = 340;
const NARROW = "(max-width: 720px)";

function attributionOf(text) {
  const holder = document.createElement("span");
  holder.textContent = text;
  return holder.innerHTML;
}

function boundsOf([west, south, east, north]) {
  return L.latLngBounds([south, west], [north, east]);
}

/** Bounds that leave tiles out; none for what spans the world, whose copies are wanted too. */
function limitsOf([west, south, east, north]) {
  const partOfTheWorld = west < east && east - west < WORLD_DEGREES;
  return partOfTheWorld ? boundsOf([west, south, east, north]) : undefined;
}

function layerFrom(described, hotSeconds) {
  return new TarryLayer({
    url: described.url,
    pane: described.base ? "base" : "overlays",
    zIndex: described.order,
    bounds: limitsOf(described.bounds),
    minZoom: described.min_zoom,
    maxZoom: DEEPEST_ZOOM,
    maxNativeZoom: described.max_zoom,
    attribution: attributionOf(described.attribution),
    hotSeconds,
  });
}

function createMap() {
  const map = L.map("map", { zoomControl: false, minZoom: 1, maxZoom: DEEPEST_ZOOM, worldCopyJump: true });
  map.createPane("base").style.zIndex = 200;
  map.createPane("overlays").style.zIndex = 300;
  map.attributionControl.setPrefix('<a href="https://leafletjs.com" rel="noreferrer">Leaflet</a>');
  L.control.zoom({ position: "topright" }).addTo(map);
  L.control.scale({ position: "bottomright", imperial: false }).addTo(map);
  return map;
}

/** Where to look first: the address, else what the first overlay covers, else the world. */
function firstView(map, described, linked) {
  const overlay = described.find((layer) => !layer.base && limitsOf(layer.bounds));
  if (linked) map.setView(linked.centre, linked.zoom);
  else if (overlay) showBounds(map, boundsOf(overlay.bounds));
  else map.setView([25, 5], 2);
}

/** Shows all of it on a narrow screen; fills a wide one, beside the cards, at most a zoom deeper. */
function showBounds(map, bounds) {
  if (window.matchMedia(NARROW).matches) {
    map.fitBounds(bounds);
    return;
  }
  const zoom = Math.min(map.getBoundsZoom(bounds, true), map.getBoundsZoom(bounds) + 1);
  map.setView(bounds.getCenter(), zoom);
  map.panBy([-document.querySelector(".cards").offsetWidth / 2, 0], { animate: false });
}

function connectSwitches(map, layers, without, changed) {
  for (const input of document.querySelectorAll("input[data-layer]")) {
    const layer = layers.get(input.dataset.layer);
    const apply = () => (input.checked ? layer.addTo(map) : layer.remove());
    input.checked = !without.has(input.dataset.layer);
    apply();
    input.addEventListener("change", () => {
      apply();
      changed();
    });
  }
}

function hiddenSlugs() {
  const inputs = [...document.querySelectorAll("input[data-layer]:not(:checked)")];
  return inputs.map((input) => input.dataset.layer);
}

function start() {
  const page = JSON.parse(document.getElementById("map-data").textContent);
  const panel = new Panel(document.getElementById("happening"), page.wait_seconds);
  watchTiles((answer) => panel.add(answer));

  const map = createMap();
  const linked = parse(window.location.hash);
  const layers = new Map(page.layers.map((it) => [it.slug, layerFrom(it, page.hot_seconds)]));
  const remember = () => {
    const address = format(map.getZoom(), map.getCenter(), hiddenSlugs());
    window.history.replaceState(null, "", address);
  };
  firstView(map, page.layers, linked);
  connectSwitches(map, layers, linked?.without ?? new Set(), remember);
  map.on("moveend", remember);
  window.addEventListener("hashchange", () => {
    const target = parse(window.location.hash);
    if (target) map.setView(target.centre, target.zoom);
  });
  if (linked) remember();
  new Live(page.layers.map((it) => ({ layer: layers.get(it.slug), tilejson: it.tilejson }))).start();
}

if (window.matchMedia(NARROW).matches) {
  for (const card of document.querySelectorAll("details.card")) card.open = false;
}
if (document.getElementById("map-data")) start();
