// Renews the table of machines every few seconds while the page is visible. Without an answer it says so, in red.

const RENEWED_SECONDS = 5;
const LIMIT_SECONDS = 10;

let heardAt = Date.now();
let isAsking = false;

/** The section of a new copy of this page. Undefined without one: as when the session has ended. */
async function read() {
  const signal = AbortSignal.timeout(LIMIT_SECONDS * 1000);
  const answer = await fetch(location.href, { signal, cache: "no-store" }).catch(() => undefined);
  if (!answer?.ok) return undefined;
  const text = await answer.text().catch(() => "");
  return new DOMParser().parseFromString(text, "text/html").getElementById("machines") ?? undefined;
}

async function renew() {
  if (isAsking || document.hidden) return;
  isAsking = true;
  const section = await read();
  isAsking = false;
  const shown = document.getElementById("machines");
  if (section) {
    heardAt = Date.now();
    shown.replaceWith(section);
    return;
  }
  shown.classList.add("is-stale");
  shown.querySelector(".word").textContent = "unknown";
  const seconds = Math.round((Date.now() - heardAt) / 1000);
  shown.querySelector(".reason").textContent = `The site has not answered for ${seconds} s. The table is as old.`;
}

setInterval(renew, RENEWED_SECONDS * 1000);
document.addEventListener("visibilitychange", renew);
