// The page of a layer: a preview that follows the data, and copy buttons.

import { addCopyButtons } from "./copy_buttons.js";
import { Credits } from "./credits.js";
import { createPanes, credited, deepestZoomOf, layersFrom } from "./layers.js";
import { Live } from "./live.js";

const LIMIT_SECONDS = 10;
const STATE = ["[data-facts]", "[data-tilejson]"];

/** A map that zooms by the wheel only while it has the focus. */
function createMap(maxZoom, { centre, zoom }) {
  const options = { attributionControl: false, scrollWheelZoom: false, dragging: !L.Browser.mobile, minZoom: 1, maxZoom };
  const map = L.map("map", { ...options, worldCopyJump: true });
  createPanes(map);
  map.on("focus", () => map.scrollWheelZoom.enable());
  map.on("blur", () => map.scrollWheelZoom.disable());
  L.control.scale({ position: "topright", imperial: false }).addTo(map);
  return map.setView(centre, zoom);
}

/** Shows the server's current state of the layer. Without an answer the old state stays. */
async function renewState() {
  const response = await fetch(window.location.pathname, { signal: AbortSignal.timeout(LIMIT_SECONDS * 1000) });
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of STATE) document.querySelector(part).replaceChildren(...page.querySelector(part).childNodes);
}

function sayGone() {
  document.querySelector("[data-gone]").textContent = "This layer was deleted or disabled.";
}

function start() {
  const page = JSON.parse(document.getElementById("layer-data").textContent);
  const deepestZoom = deepestZoomOf(page.layers);
  const map = createMap(deepestZoom, page.view);
  const layers = layersFrom(page, deepestZoom);
  new Credits(credited(page, layers)).addTo(map); // before the layers: it looks again with each that is added
  for (const layer of layers.values()) layer.addTo(map);

  const gone = (slug) => {
    layers.get(slug).remove();
    if (slug === page.slug) sayGone();
  };
  const changed = (slug) => slug === page.slug && renewState();
  new Live(page, layers, { gone, changed }).start();
}

addCopyButtons(document.querySelectorAll(".copied"), document.querySelector("[data-announcement]"));
start();
