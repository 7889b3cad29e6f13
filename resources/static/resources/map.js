// Puts the map together: layers from the page's data, the switches, the panel, the address.

import { Credits } from "./credits.js";
import { createPanes, credited, deepestZoomOf, layersFrom, limitsOf } from "./layers.js";
import { Live } from "./live.js";
import { Panel } from "./panel.js";
import { format, parse } from "./permalink.js";
import { watchTiles } from "./tile_watcher.js";

const WORLD = { centre: [25, 5], zoom: 2 };
const NARROW = "(max-width: 720px)";

function createMap(maxZoom) {
  const options = { zoomControl: false, attributionControl: false, minZoom: 1, maxZoom, worldCopyJump: true };
  const map = L.map("map", options);
  createPanes(map);
  L.control.zoom({ position: "topright" }).addTo(map);
  return map;
}

/** The first view: from the address, else the first overlay's bounds, else the world. */
function firstView(map, described, linked) {
  const overlay = described.find((layer) => !layer.base && limitsOf(layer.bounds));
  if (linked) map.setView(linked.centre, linked.zoom);
  else if (overlay) showLayer(map, overlay);
  else map.setView(WORLD.centre, WORLD.zoom);
}

/** Moves to a layer, no farther out than its lowest zoom. */
function showLayer(map, { bounds, min_zoom: minZoom }) {
  const limits = limitsOf(bounds);
  if (limits) showBounds(map, limits, minZoom);
  else map.setView(WORLD.centre, Math.max(WORLD.zoom, minZoom), { animate: false });
}

/** Fits the bounds on a narrow screen. Fills a wide screen beside the cards, at most one zoom deeper. */
function showBounds(map, bounds, minZoom) {
  const whole = map.getBoundsZoom(bounds);
  const narrow = window.matchMedia(NARROW).matches;
  const zoom = narrow ? whole : Math.min(map.getBoundsZoom(bounds, true), whole + 1);
  map.setView(bounds.getCenter(), Math.max(zoom, minZoom), { animate: false });
  if (!narrow) map.panBy([-document.querySelector(".cards").offsetWidth / 2, 0], { animate: false });
}

function switchOf(slug) {
  return document.querySelector(`input[data-layer="${slug}"]`);
}

function apply(map, layer, input) {
  if (input.checked) layer.addTo(map);
  else layer.remove();
}

/** Switches layers on and off by an address. */
function switchLayers(map, layers, without) {
  for (const [slug, layer] of layers) {
    switchOf(slug).checked = !without.has(slug);
    apply(map, layer, switchOf(slug));
  }
}

function connectSwitches(map, layers, changed) {
  for (const [slug, layer] of layers) {
    switchOf(slug).addEventListener("change", ({ target }) => {
      apply(map, layer, target);
      changed();
    });
  }
}

function connectButtons(map, layers, described) {
  for (const it of described) {
    document.querySelector(`button[data-show="${it.slug}"]`).addEventListener("click", () => {
      switchOf(it.slug).checked = true;
      layers.get(it.slug).addTo(map);
      showLayer(map, it);
    });
  }
}

/** Moves the focus to the map, and keeps the address with its view. */
function connectSkipLink(map) {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    map.getContainer().focus();
  });
}

function hiddenSlugs() {
  const inputs = [...document.querySelectorAll("input[data-layer]:not(:checked)")];
  return inputs.map((input) => input.dataset.layer);
}

function start() {
  const page = JSON.parse(document.getElementById("map-data").textContent);
  const panel = new Panel(document.getElementById("happening"), page.wait_seconds);
  watchTiles((answer) => panel.add(answer));

  const deepestZoom = deepestZoomOf(page.layers);
  const map = createMap(deepestZoom);
  const layers = layersFrom(page, deepestZoom);
  new Credits(credited(page, layers)).addTo(map);
  L.control.scale({ position: "bottomright", imperial: false, maxWidth: 140 }).addTo(map); // "1000 km" fits

  const linked = parse(window.location.hash);
  const remember = () => {
    const address = format(map.getZoom(), map.getCenter(), hiddenSlugs());
    window.history.replaceState(null, "", address);
  };
  firstView(map, page.layers, linked);
  switchLayers(map, layers, linked?.without ?? new Set());
  connectSwitches(map, layers, remember);
  connectButtons(map, layers, page.layers);
  connectSkipLink(map);
  map.on("moveend", remember);
  window.addEventListener("hashchange", () => {
    const target = parse(window.location.hash);
    if (!target) return;
    switchLayers(map, layers, target.without);
    map.setView(target.centre, target.zoom);
  });
  if (linked) remember();

  const takeAway = (slug) => {
    layers.get(slug).remove();
    layers.delete(slug);
    switchOf(slug).closest(".layer").remove();
  };
  const news = document.querySelector("[data-news]");
  new Live(page, layers, { gone: takeAway, others: () => (news.hidden = false) }).start();
  for (const layer of layers.values()) layer.on("freshness", () => panel.tellStale(layers.values()));
  news.querySelector("button").addEventListener("click", () => window.location.reload()); // the address has the view
}

if (window.matchMedia(NARROW).matches) {
  for (const card of document.querySelectorAll("details.card")) card.open = false;
}
if (document.getElementById("map-data")) start();
