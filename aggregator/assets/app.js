// Refreshes the content of the page every second. Without this script the whole page reloads (meta refresh).
"use strict";

const main = document.querySelector("main[data-fragment]");
const live = document.querySelector("[data-live]");
const liveText = document.querySelector("[data-live-text]");
let shown = null;
let failures = 0;

document.documentElement.classList.add("js");
live.hidden = false;

function keyed(selector) {
  return new Map([...main.querySelectorAll(selector)].map((element) => [element.dataset.key, element]));
}

// Replaces the content; keeps opened details, scroll positions and focus.
function swap(html) {
  const open = new Set([...main.querySelectorAll("details[open]")].map((details) => details.dataset.key));
  const scrolled = new Map(
    [...keyed(".scroll[data-key]")].map(([key, box]) => [key, [box.scrollLeft, box.scrollTop]]),
  );
  const focused = main.contains(document.activeElement)
    ? document.activeElement.closest("details[data-key]")?.dataset.key
    : null;
  main.innerHTML = html;
  for (const [key, details] of keyed("details[data-key]")) {
    details.open = open.has(key);
    if (key === focused) details.querySelector("summary").focus({ preventScroll: true });
  }
  for (const [key, box] of keyed(".scroll[data-key]")) {
    const [left, top] = scrolled.get(key) ?? [0, 0];
    box.scrollLeft = left;
    box.scrollTop = top;
  }
}

function selecting() {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && main.contains(selection.anchorNode);
}

function say(state, text) {
  live.className = `live ${state}`;
  liveText.textContent = text;
}

async function renew() {
  if (document.hidden || selecting()) return;
  try {
    const answer = await fetch(main.dataset.fragment, {
      cache: "no-store",
      signal: AbortSignal.timeout(5000),
    });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const html = await answer.text();
    failures = 0;
    say("", "live");
    document.body.classList.remove("stale");
    if (html !== shown && !selecting()) {
      shown = html;
      swap(html);
    }
  } catch {
    failures += 1;
    if (failures > 2) {
      say("lost", "the aggregator does not respond");
      document.body.classList.add("stale");
    }
  }
}

async function forever() {
  for (;;) {
    await new Promise((done) => setTimeout(done, failures > 10 ? 5000 : 1000));
    await renew();
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = button.parentElement.querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    // Browsers have no clipboard API without HTTPS: select the text, so that the user can copy it.
    document.getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    button.textContent = "selected";
  }
});

forever();
