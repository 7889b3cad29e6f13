// Asks the waiting instance for the state of the content, and shows the content in the place of this page as soon as
// there is an answer. Until then the address is the content's: that is what people reload, keep and come back to.
"use strict";

{
  const page = document.querySelector("[data-status]");
  const state = page.querySelector("[role=status]");
  const content = new URL(page.dataset.content, location.href);
  const isHere = content.origin === location.origin;
  const LEAST_PAUSE_MS = 1000;
  const MOST_HELD_SECONDS = 20;

  // A request is held by the instance until there is an answer, at first for a moment, so that the line is seen to move.
  async function ask(heldSeconds) {
    const began = Date.now();
    const answer = await fetch(page.dataset.status, {
      headers: { Prefer: `wait=${heldSeconds}` },
      redirect: "manual",
      cache: "no-store",
    }).catch(() => null); // the site cannot be reached
    if (answer && hasEnded(answer)) return show();
    const told = answer?.status === 202 ? await answer.json().catch(() => ({})) : {};
    if (told.waiting) state.textContent = told.waiting;
    const pause = Math.max(0, LEAST_PAUSE_MS - (Date.now() - began));
    setTimeout(ask, pause, Math.min(heldSeconds * 2, MOST_HELD_SECONDS));
  }

  // A failed preparation may have any status. Any other 503 is a refusal to tell the state now.
  function hasEnded(answer) {
    const isFailure = /detail=failed/.test(answer.headers.get("Cache-Status"));
    return isFailure || (answer.status !== 202 && answer.status !== 503);
  }

  function show() {
    if (isHere) location.reload();
    else location.replace(content);
  }

  if (isHere) history.replaceState(null, "", content.pathname + content.search + location.hash);
  ask(2);
}
